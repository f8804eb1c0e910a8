// What the thread of an SSH connection waits for outside of SSH: names, addresses, a program. Each wait ends when the
// loop hangs up. Must not know SSH.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "base/error.h"
#include "base/fd.h"

namespace rex::transports {

/// HostUnreachable {phase, detail}, with what a far side may have said made harmless.
Error unreachable(std::string_view phase, std::string_view detail);

/// The socket that leads to the loop. The loop sends nothing but answers to questions: anything else that happens on it
/// is the wish that the thread end.
class Hangup {
 public:
  explicit Hangup(int socket) : socket_(socket) {}

  /// True when one of `events` came on `fd` (or it broke), false at the deadline. Throws RequestCancelled once the loop
  /// has hung up.
  bool wait(int fd, short events, TimePoint deadline) const;
  [[nodiscard]] int socket() const { return socket_; }

 private:
  int socket_;
};

struct Connected {
  Fd socket;            // non-blocking, TCP_NODELAY
  std::string address;  // what was reached, in words
};

/// Where to connect, and from where.
struct Endpoint {
  std::string host;
  int port = 22;
  int family = 0;            // of sys/socket.h; 0: any
  std::string bind_address;  // empty: any
  bool keepalive = true;     // a network that swallows everything is noticed within two minutes
  Milliseconds patience{10'000};
};

/// Resolves a name (its whole time is that of the deadline too). Tries every address it has: a quarter of a second
/// after the one before, or at once when that one is refused; the first to answer wins. `told` is called at the
/// beginning of the phases dns and tcp. Throws HostUnreachable.
Connected connect_tcp(const Endpoint& endpoint, const Hangup& hangup,
                      const std::function<void(std::string_view phase, std::string_view detail)>& told);

struct Ran {
  bool started = false;
  int code = -1;  // its exit code; -1 for another end
  std::string out;
  std::string err;
};

/// Runs a program of $PATH with empty input; what it prints is bounded. Killed at the deadline and when the loop hangs
/// up.
Ran run_program(const std::vector<std::string>& argv, const Hangup& hangup, TimePoint deadline);

}  // namespace rex::transports
