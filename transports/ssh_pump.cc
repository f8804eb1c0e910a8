#include "transports/ssh_pump.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>

namespace rex::transports {
namespace {

class Pump {
 public:
  Pump(Libssh& server, int data) : server_(server), data_(data) {}

  void run() {
    while (!done()) {
      take_in();
      to_next();
      const bool moved = from_next();
      if (!done()) {
        wait(moved);
      }
    }
  }

 private:
  // Taken in at once before the other way has its turn: libssh takes 4 KiB a step.
  static constexpr int steps = 32;
  [[nodiscard]] bool done() const { return gone_ || (ended() && down_.empty() && server_.available() == 0); }
  [[nodiscard]] bool ended() const { return server_.closed() || server_.broken(); }

  /// Nothing more once the channel is closed: the server may be gone by now, and libssh forgets what it holds for us
  /// when it sees that.
  void take_in() {
    for (int i = 0; i < steps && !ended() && server_.take_in(); ++i) {
    }
  }

  void to_next() {
    for (;;) {
      if (down_.empty()) {
        down_ = server_.read_available();
        if (down_.empty()) {
          break;
        }
      }
      const ssize_t n = ::send(data_, down_.data(), down_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EINTR) {
        gone_ = gone_ || errno != EAGAIN;
        return;
      }
      down_.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    }
    if (server_.eof() && !std::exchange(down_shut_, true)) {
      ::shutdown(data_, SHUT_WR);
    }
  }

  /// True when something went into the channel, so that more may.
  bool from_next() {
    if (up_.empty() && !up_ended_) {
      const ssize_t n = ::recv(data_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (n > 0) {
        up_ = std::string_view(buffer_.data(), static_cast<std::size_t>(n));
      } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        up_ended_ = true;
      }
    }
    if (up_.empty()) {
      if (up_ended_ && !up_shut_ && !ended()) {
        up_shut_ = true;
        server_.send_eof();
      }
      return false;
    }
    if (ended()) {
      up_ = {};  // nobody there will read it
      return false;
    }
    const std::size_t written = server_.write(up_);
    up_.remove_prefix(written);
    return written > 0;
  }

  void wait(bool moved) {
    // What went out may have made room for more, and may have brought in what nothing would wake us for.
    const bool ready = moved || (down_.empty() && server_.available() > 0) || (ended() && down_.empty());
    pollfd fds[] = {{ended() ? -1 : server_.fd(), POLLIN, 0}, {data_, 0, 0}};
    if (!ended() && server_.is_writing()) {
      fds[0].events |= POLLOUT;
    }
    if (up_.empty() && !up_ended_) {
      fds[1].events |= POLLIN;
    }
    if (!down_.empty()) {
      fds[1].events |= POLLOUT;
    }
    ::poll(fds, 2, ready ? 0 : -1);
    if ((fds[1].revents & (POLLHUP | POLLERR)) != 0) {
      hang_up();
    }
  }

  /// The next leg is gone; what it wrote before goes as far as it goes without waiting.
  void hang_up() {
    while (from_next()) {
    }
    gone_ = true;
  }

  Libssh& server_;
  int data_;
  std::string_view down_;  // what the channel brought and the next leg has not taken yet
  bool down_shut_ = false;
  std::array<char, 64 * 1024> buffer_{};
  std::string_view up_;  // what of the buffer the channel has not taken yet
  bool up_ended_ = false;
  bool up_shut_ = false;
  bool gone_ = false;
};

}  // namespace

void pump(Libssh& server, int data) { Pump(server, data).run(); }

}  // namespace rex::transports
