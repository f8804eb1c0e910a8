// File descriptors that close themselves, and the few system calls everyone needs around them.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace rex {

/// Owns one file descriptor. Empty is -1. Closing it leaves errno as it is.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset(std::exchange(other.fd_, -1));
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};

/// A close-on-exec pipe; `flags` are those of pipe2(2) to add. Throws OsError.
Pipe make_pipe(int flags = 0);

/// Writes all of `data` to a blocking descriptor, EINTR-safe. Throws OsError.
void write_all(int fd, std::string_view data, std::string_view what);

/// Writes all of `data` at that place of a file, EINTR-safe. False where it cannot, with errno set.
bool write_at(int fd, std::string_view data, std::int64_t place);

/// For one who writes a file from its beginning, of which `after` bytes are written now where `before` were: sends
/// whole stretches on their way to the disk, so that there is little to wait for at the end. A hint, which does not
/// fail.
void begin_to_sync(int fd, std::int64_t before, std::int64_t after);

/// Takes the exclusive flock(2) of an open file, for which it tries again until `patience` has passed. 0, or why not:
/// EWOULDBLOCK where another one holds it still. Blocks, so it is for a worker.
int lock_within(int fd, std::chrono::milliseconds patience);

/// Gives `sink(std::string_view)` what is there to read from a non-blocking descriptor, until nothing is left or
/// `at_most` bytes came. False once the stream has ended: end of file, or an error (EIO: a terminal was hung up).
template <class Sink>
bool drain(int fd, std::size_t at_most, const Sink& sink) {
  std::array<char, 64 * 1024> buffer;
  for (std::size_t total = 0; total < at_most;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n > 0) {
      sink(std::string_view(buffer.data(), static_cast<std::size_t>(n)));
      total += static_cast<std::size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      return n < 0 && errno == EAGAIN;
    }
  }
  return true;
}

}  // namespace rex
