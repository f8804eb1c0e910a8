#include "base/fd.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"

namespace rex {

void Fd::reset(int fd) {
  if (fd_ >= 0) {
    const int failed = errno;  // of what closes us on its way out: it is still to be told
    ::close(fd_);
    errno = failed;
  }
  fd_ = fd;
}

Pipe make_pipe(int flags) {
  int ends[2];
  if (::pipe2(ends, flags | O_CLOEXEC) != 0) {
    throw os_error("cannot make a pipe", errno);
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

void write_all(int fd, std::string_view data, std::string_view what) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n >= 0) {
      data.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      throw os_error(what, errno);
    }
  }
}

bool write_at(int fd, std::string_view data, std::int64_t place) {
  // For a large piece the kernel takes large blocks of memory, which are those that a virtual machine has given back to
  // its host: to have them again took as long as the rest of a copy (32 KiB: 0.34 s of 300 MB, 256 KiB: 0.7 s).
  constexpr std::size_t piece = 32u << 10;
  while (!data.empty()) {
    const ssize_t n = ::pwrite(fd, data.data(), std::min(data.size(), piece), place);
    if (n >= 0) {
      data.remove_prefix(static_cast<std::size_t>(n));
      place += n;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

void begin_to_sync(int fd, std::int64_t before, std::int64_t after) {
  constexpr std::int64_t stretch = 16 << 20;
  const std::int64_t begin = before / stretch * stretch;
  if (const std::int64_t end = after / stretch * stretch; end > begin) {
    ::sync_file_range(fd, begin, end - begin, SYNC_FILE_RANGE_WRITE);
  }
}

int lock_within(int fd, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds look_again{1};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int failed = errno;
    if ((failed != EWOULDBLOCK && failed != EINTR) || std::chrono::steady_clock::now() >= deadline) {
      return failed;
    }
    std::this_thread::sleep_for(look_again);
  }
  return 0;
}

}  // namespace rex
