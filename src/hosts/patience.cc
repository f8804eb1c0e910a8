#include "hosts/patience.h"

#include <utility>

namespace rex::hosts {

Patience::Patience(Executor executor, Transport* transport, Cancel& cancel, Milliseconds patience)
    : patience_(patience),
      timer_(executor),
      state_(std::make_shared<State>(State{transport})),
      cancelled_(cancel, [this] {
        if (Transport* const waiting = std::exchange(state_->transport, nullptr)) {
          waiting->close();
        }
      }) {
  renew();
}

Patience::~Patience() { end(); }

void Patience::renew() {
  if (state_->transport == nullptr) {
    return;
  }
  timer_.expires_after(patience_);
  timer_.async_wait([state = state_](const std::error_code& error) {
    if (Transport* const waiting = error ? nullptr : std::exchange(state->transport, nullptr)) {
      state->expired = true;
      waiting->close();
    }
  });
}

void Patience::end() {
  state_->transport = nullptr;
  timer_.cancel();
}

bool Patience::has_expired() const { return state_->expired; }

}  // namespace rex::hosts
