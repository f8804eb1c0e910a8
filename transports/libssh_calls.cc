#include "transports/libssh_calls.h"

#include <dlfcn.h>

#include <type_traits>

namespace rex::transports {
namespace {

// The interface that we were compiled with: its name changes when that does.
constexpr const char* library = "libssh.so.4";

LibsshCalls load() {
  LibsshCalls calls;
  void* const loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);  // which starts it, and stays
  const auto find = [&](auto& call, const char* name) {
    call =
        loaded == nullptr ? nullptr : reinterpret_cast<std::remove_reference_t<decltype(call)>>(::dlsym(loaded, name));
    if (call == nullptr && calls.missing.empty()) {
      const char* const why = ::dlerror();
      calls.missing = std::string("there is no libssh to be had: ") + (why == nullptr ? name : why);
    }
  };
#define REX_FIND(name) find(calls.name, #name);
  REX_LIBSSH_CALLS(REX_FIND)
#undef REX_FIND
  return calls;
}

}  // namespace

const LibsshCalls& libssh() {
  static const LibsshCalls calls = load();
  return calls;
}

std::string taken(char* text) {
  std::string copy = text == nullptr ? "" : text;
  libssh().ssh_string_free_char(text);
  return copy;
}

}  // namespace rex::transports
