// File descriptors that close themselves, and the few system calls everyone needs around them.
#pragma once

#include <string_view>
#include <utility>

namespace rex {

/// Owns one file descriptor. Empty is -1.
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

}  // namespace rex
