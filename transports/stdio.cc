#include "transports/stdio.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "base/error.h"

namespace rex::transports {

namespace {

class DescriptorTransport final : public Transport {
 public:
  DescriptorTransport(Executor executor, Fd in, Fd out)
      : in_(executor, std::move(in)), out_(executor, std::move(out)) {}

  Task<std::size_t> read_some(std::span<char> buffer) override {
    for (;;) {
      // False without having been closed: epoll refuses regular files and /dev/null, which are always ready.
      co_await in_.readable();
      if (closed_) {
        co_return 0;
      }
      const ssize_t n = ::read(in_.fd(), buffer.data(), buffer.size());
      if (n >= 0) {
        co_return static_cast<std::size_t>(n);
      }
      if (errno != EAGAIN && errno != EINTR) {
        throw os_error("cannot read", errno);
      }
    }
  }

  std::size_t try_write(std::string_view data) override {
    std::size_t written = 0;
    while (written < data.size()) {
      const ssize_t n = ::write(out_.fd(), data.data() + written, data.size() - written);
      if (n >= 0) {
        written += static_cast<std::size_t>(n);
      } else if (errno == EAGAIN) {
        break;
      } else if (errno != EINTR) {
        throw os_error("cannot write", errno);
      }
    }
    return written;
  }

  Task<> writable() override { co_await out_.writable(); }
  Task<bool> gone() override { return out_.broken(); }
  void end_output() override {
    if (::shutdown(out_.fd(), SHUT_WR) != 0) {
      out_.close();  // no socket, so it is a direction of its own
    }
  }
  void close() override {
    closed_ = true;
    in_.close();
    out_.close();
  }

 private:
  AsyncFd in_;
  AsyncFd out_;
  bool closed_ = false;
};

/// A private, close-on-exec descriptor for the stream behind `fd`. O_NONBLOCK belongs to the open file description,
/// which a pipe or a terminal usually shares with the shell and with our siblings; they would suddenly see EAGAIN.
/// So pipes and terminals are opened anew where the system lets us; a regular file is not, for that would lose its
/// offset, and a socket cannot be.
Fd private_copy(int fd, int access) {
  struct stat status{};
  if (::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || (S_ISCHR(status.st_mode) && ::isatty(fd) == 1))) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    Fd reopened(::open(path.c_str(), access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (reopened) {
      return reopened;
    }
  }
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) {
    throw os_error("cannot take over a standard stream", errno);
  }
  return copy;
}

void replace(int fd, int with) {
  if (::dup2(with, fd) < 0) {
    throw os_error("cannot replace a standard stream", errno);
  }
}

}  // namespace

void occupy_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) {
      throw os_error("cannot open", errno, "/dev/null");
    }
  }
}

std::unique_ptr<Transport> take_over_stdio(Executor executor) {
  occupy_standard_streams();
  ::signal(SIGPIPE, SIG_IGN);  // a peer that went away is an error of write, not the end of this process
  Fd in = private_copy(0, O_RDONLY);
  Fd out = private_copy(1, O_WRONLY);
  const Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) {
    throw os_error("cannot open", errno, "/dev/null");
  }
  replace(0, nothing.get());
  replace(1, 2);
  return over_descriptors(executor, std::move(in), std::move(out));
}

std::unique_ptr<Transport> standard_input(Executor executor) {
  Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  return over_descriptors(executor, private_copy(0, O_RDONLY), std::move(nowhere));
}

std::unique_ptr<Transport> over_descriptors(Executor executor, Fd in, Fd out) {
  return std::make_unique<DescriptorTransport>(executor, std::move(in), std::move(out));
}

}  // namespace rex::transports
