#include "base/secret.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"

namespace rex {

void wipe(std::string& text) {
  text.resize(text.capacity());
  explicit_bzero(text.data(), text.size());
  text.clear();
}

std::string in_own_memory(std::string& text, std::size_t more) {
  constexpr std::size_t beyond_any_object = 64;
  std::string own;
  own.reserve(std::max(text.size() + more, beyond_any_object));
  own = text;
  wipe(text);
  return own;
}

bool is_same_secret(std::string_view one, std::string_view other) {
  // Not memcmp, which stops where they differ, and volatile, so that no compiler makes one of this.
  volatile unsigned char different = one.size() == other.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    different = static_cast<unsigned char>(different | (one[i] ^ other[i]));
  }
  return different == 0;
}

void keep_memory_out_of_core_dumps() {
  // Not RLIMIT_CORE: a limit of 0 does not keep a core from a collector behind a pipe (core(5)). Not PR_SET_DUMPABLE:
  // shells open our descriptors through /proc, and that needs a dumpable owner.
  const Fd filter(open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC));
  if (filter) {
    [[maybe_unused]] const ssize_t written = ::write(filter.get(), "0", 1);
  }
}

}  // namespace rex
