# Which compilers may build this, and how they are called. Knows no dependency and no target.

# Coroutines decide: clang >= 16 and g++ >= 14 compile them right. g++ 12 does not, and says nothing.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16
   OR CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  set(compiler_too_old TRUE)
endif()
if(NOT CMAKE_CROSSCOMPILING)
  include(CheckCXXSourceRuns)
  file(READ ${CMAKE_CURRENT_LIST_DIR}/coroutine_probe.cc probe)
  set(CMAKE_REQUIRED_FLAGS -std=c++20)
  check_cxx_source_runs("${probe}" REX_COROUTINES_WORK)
  unset(CMAKE_REQUIRED_FLAGS)
endif()
if(NOT CMAKE_CROSSCOMPILING AND NOT REX_COROUTINES_WORK)
  set(reason "It miscompiles coroutines: cmake/coroutine_probe.cc fails with it (g++ 12 destroys a temporary lambda "
             "inside a co_await expression twice, and the program would corrupt its memory in silence).")
elseif(compiler_too_old)
  set(reason "It is too old for coroutines that can be trusted.")
endif()
if(reason)
  list(JOIN reason "" reason)
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} (${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}) is refused. "
                      "${reason} Take clang >= 16 or g++ >= 14, for example CXX=clang++-19.")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Said to all alike, because re2 says it to some, and precompiled headers want one answer.
add_compile_options(-pthread)

if(REX_SANITIZE)
  add_compile_options(-fsanitize=${REX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${REX_SANITIZE})
  if(REX_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # asio's fences, which TSan does not see
  endif()
endif()
add_compile_definitions($<$<NOT:$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:_GLIBCXX_ASSERTIONS>)

if(REX_STATIC)
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(-static -Wl,--gc-sections -s)
endif()

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# ccache sees through precompiled headers only if told that their defines and times do not matter.
find_program(CCACHE ccache)
if(CCACHE AND (NOT CMAKE_CXX_COMPILER_LAUNCHER OR CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$"))
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()
if(REX_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
