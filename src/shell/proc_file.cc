#include "shell/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/fd.h"

namespace rex::shell {

std::string slurp(const std::string& path) {
  std::string text;
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) {
    char buffer[4096];
    ssize_t n = 0;
    while ((n = ::read(fd.get(), buffer, sizeof buffer)) > 0) {
      text.append(buffer, static_cast<std::size_t>(n));
    }
  }
  return text;
}

std::string_view ProcFile::read(pid_t pid, const char* name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  return take(path);
}

std::string_view ProcFile::read(pid_t pid, pid_t thread, const char* name) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, thread, name);
  return take(path);
}

std::string_view ProcFile::take(const char* path) {
  error_ = 0;
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  std::size_t size = 0;
  ssize_t n = fd ? 0 : -1;
  // One byte of room stays for the zero that makes the text safe for sscanf.
  while (fd && size < sizeof text_ - 1 && (n = ::read(fd.get(), text_ + size, sizeof text_ - 1 - size)) > 0) {
    size += static_cast<std::size_t>(n);
  }
  if (n < 0) {
    error_ = errno;
    size = 0;
  }
  text_[size] = '\0';
  size_ = size;
  return {text_, size};
}

}  // namespace rex::shell
