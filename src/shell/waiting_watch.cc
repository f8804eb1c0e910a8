#include "shell/waiting_watch.h"

#include <utility>

namespace rex::shell {
namespace {

// When a look is due after something stirred; the probe would put off an earlier one.
constexpr Milliseconds first_look{10};

}  // namespace

WaitingWatch::WaitingWatch(Executor executor, std::shared_ptr<Incarnation> in, std::function<void()> changed,
                           std::function<bool()> alternate_screen)
    : executor_(executor),
      in_(std::move(in)),
      changed_(std::move(changed)),
      probe_(in_->input()->fd(), in_->slave(), in_->program().guardian(), std::move(alternate_screen)) {}

void WaitingWatch::command_began() {
  command_runs_ = true;
  const TimePoint now = Clock::now();
  probe_.command_began(now);
  stir(now);
  if (!std::exchange(watching_, true)) {
    spawn(executor_, watch(shared_from_this()));
  }
}

void WaitingWatch::command_ended() {
  command_runs_ = false;
  probe_.stir(Clock::now());
}

void WaitingWatch::stir(TimePoint now) {
  const bool was_known = waiting().has_value();
  probe_.stir(now);
  if (next_look_ > now + first_look) {
    next_look_ = now + first_look;
    sooner_.notify();
  }
  if (was_known) {
    changed_();
  }
}

Task<> WaitingWatch::watch(std::shared_ptr<WaitingWatch> self) {
  Waiter waiter(self->executor_);
  waiter.subscribe(self->sooner_);
  self->next_look_ = Clock::now() + first_look;
  while (self->command_runs_ && self->in_->input() != nullptr) {
    const TimePoint now = Clock::now();
    if (now >= self->next_look_) {
      self->look(now);
    }
    co_await waiter.until(self->next_look_);
  }
  self->watching_ = false;
}

void WaitingWatch::look(TimePoint now) {
  const WaitingProbe::Verdict before = verdict();
  const bool was_reading = is_reading();
  next_look_ = now + probe_.look(now);
  if (verdict() != before || is_reading() != was_reading) {
    changed_();
  }
}

}  // namespace rex::shell
