// A limit on how long a far side may keep us waiting. Knows nothing of what is waited for.
#pragma once

#include <memory>

#include "base/async.h"
#include "transports/transport.h"

namespace rex::hosts {

/// Closes a transport when the far side has made no progress for too long, or when the attempt is cancelled, so that
/// whoever waits for the transport goes on. The transport may be gone before it.
class Patience {
 public:
  Patience(Executor executor, Transport* transport, Cancel& cancel, Milliseconds patience);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  /// There was progress: the time begins anew.
  void renew();
  /// Nothing is waited for any more.
  void end();
  [[nodiscard]] bool has_expired() const;
  [[nodiscard]] Milliseconds duration() const { return patience_; }

 private:
  struct State {
    Transport* transport;  // null once nothing is waited for
    bool expired = false;
  };

  Milliseconds patience_;
  Timer timer_;
  std::shared_ptr<State> state_;  // a timer that has expired cannot be cancelled: its handler may outlive us
  Cancel::Listener cancelled_;
};

}  // namespace rex::hosts
