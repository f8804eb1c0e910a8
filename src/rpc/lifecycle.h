// What a connection may be asked now: the state machine of initialize, shutdown and exit. No I/O, no JSON.
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"

namespace rex::rpc {

/// Passive: the Connection asks it before each request; the handlers of `initialize` and `shutdown` tell it.
class Lifecycle {
 public:
  /// `trusted`: the transport vouches for the peer (stdio, a unix socket), so `initialize` is optional. Else the peer
  /// is a stranger until that has succeeded.
  explicit Lifecycle(bool trusted = true) : trusted_(trusted) {}

  /// Why a request for `method` must be refused now: ServerNotInitialized or InvalidRequest; nullopt if it may run.
  [[nodiscard]] std::optional<Error> refusal(std::string_view method) const;
  /// Whether a notification still has an effect; `exit` always has.
  [[nodiscard]] bool heeds(std::string_view notification) const {
    return notification == "exit" || (!is_stranger() && !shut_down_);
  }

  /// `initialize` succeeded. A failed one changes nothing: the client may try again.
  void initialized() { initialized_ = true; }
  void shut_down() { shut_down_ = true; }

  [[nodiscard]] bool is_initialized() const { return initialized_; }
  [[nodiscard]] bool is_stranger() const { return !trusted_ && !initialized_; }
  /// The exit code after `exit`: 0 if `shutdown` came before it, else 1.
  [[nodiscard]] int exit_code() const { return shut_down_ ? 0 : 1; }

 private:
  bool trusted_;
  bool initialized_ = false;
  bool shut_down_ = false;
};

}  // namespace rex::rpc
