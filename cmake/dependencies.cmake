# The libraries, from the system where it has them. Only asio and Catch2 are ever downloaded, pinned by hash, and only
# where nothing new enough is installed; `./dev` installs all of them on Debian.

# Archives where there are any, and headers alone: what is linked in takes no part of its own in the memory of each process
# (three a daemon session, of which there may be a thousand), and the loader has less to do at each start.
if(REX_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
else()
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
endif()

find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_path(SPDLOG_INCLUDE_DIR spdlog/spdlog.h REQUIRED)
add_library(rex_spdlog INTERFACE)
target_include_directories(rex_spdlog SYSTEM INTERFACE ${SPDLOG_INCLUDE_DIR})
target_compile_definitions(rex_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(NETTLE REQUIRED IMPORTED_TARGET nettle)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)

# libvterm 0.3 wraps lines anew when the screen is resized.
find_path(VTERM_INCLUDE_DIR vterm.h)
find_library(VTERM_LIBRARY NAMES vterm)
if(VTERM_INCLUDE_DIR)
  file(STRINGS ${VTERM_INCLUDE_DIR}/vterm.h vterm_version REGEX "define VTERM_VERSION_M")
  string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)" "\\1.\\2" vterm_version "${vterm_version}")
endif()
if(NOT VTERM_INCLUDE_DIR OR NOT VTERM_LIBRARY OR vterm_version VERSION_LESS 0.3)
  message(FATAL_ERROR "libvterm >= 0.3 is needed (found: ${vterm_version}); ./dev installs it on Debian.")
endif()

# Unpacks a pinned archive, whose own warnings are not ours, into <name>_SOURCE_DIR.
function(rex_fetch name url sha256)
  message(STATUS "${name}: nothing new enough is installed; fetching ${url}")
  include(FetchContent)
  set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)
  FetchContent_Declare(${name} URL ${url} URL_HASH SHA256=${sha256} DOWNLOAD_EXTRACT_TIMESTAMP FALSE SYSTEM)
  FetchContent_MakeAvailable(${name})
  set(${name}_SOURCE_DIR ${${name}_SOURCE_DIR} PARENT_SCOPE)
endfunction()

# asio 1.28.2 mended a crash in the cancellation of co_spawn, 1.30.2 undefined behaviour in awaitable.
find_path(ASIO_INCLUDE_DIR asio.hpp)
if(ASIO_INCLUDE_DIR)
  file(STRINGS ${ASIO_INCLUDE_DIR}/asio/version.hpp asio_version REGEX "define ASIO_VERSION ")
  string(REGEX MATCH "[0-9]+" asio_version "${asio_version}")
endif()
if(NOT ASIO_INCLUDE_DIR OR asio_version LESS 103002)
  rex_fetch(asio https://github.com/chriskohlhoff/asio/archive/refs/tags/asio-1-30-2.tar.gz
            755bd7f85a4b269c67ae0ea254907c078d408cce8e1a352ad2ed664d233780e8)
  set(ASIO_INCLUDE_DIR ${asio_SOURCE_DIR}/asio/include)
endif()

if(BUILD_TESTING)
  find_package(Catch2 3 QUIET)
  if(NOT Catch2_FOUND)
    rex_fetch(catch2 https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
              c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c)
    list(APPEND CMAKE_MODULE_PATH ${catch2_SOURCE_DIR}/extras)
  endif()
endif()

if(NOT REX_STATIC)
  find_package(libssh 0.10 REQUIRED)
endif()
