#include "base/secret.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"

namespace rex {
namespace {

constexpr const char* core_filter_file = "/proc/self/coredump_filter";

}  // namespace

void wipe(std::string& text) {
  text.resize(text.capacity());
  explicit_bzero(text.data(), text.size());
  text.clear();
}

void make_room(std::string& text, std::size_t more) {
  if (text.capacity() - text.size() >= more) {
    return;
  }
  std::string roomy;
  roomy.reserve(std::max(2 * text.capacity(), text.size() + more));
  roomy += text;
  text.swap(roomy);
  wipe(roomy);
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
  set_core_filter("0");
}

std::string core_filter() {
  const Fd file(open(core_filter_file, O_RDONLY | O_CLOEXEC));
  char text[32];
  const ssize_t n = file ? ::read(file.get(), text, sizeof text) : 0;
  const std::string_view read(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  return std::string(read.substr(0, read.find('\n')));
}

void set_core_filter(const std::string& filter) {
  const Fd file(open(core_filter_file, O_WRONLY | O_CLOEXEC));
  if (file && !filter.empty()) {
    const std::string hexadecimal = "0x" + filter;  // else the zeros before it make it octal
    [[maybe_unused]] const ssize_t written = ::write(file.get(), hexadecimal.data(), hexadecimal.size());
  }
}

}  // namespace rex
