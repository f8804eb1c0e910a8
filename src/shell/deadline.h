// A deadline that lets what came before it be seen first. Must not know what is waited for.
#pragma once

#include "base/async.h"

namespace rex::shell {

/// Whoever was stopped, or slept, finds a deadline long passed and what happened meanwhile unread: the end of a job
/// among it. So one that is found to have passed by far does so a moment later (test_lasting.py, K04). Passive.
class Deadline {
 public:
  explicit Deadline(TimePoint at) : at_(at) {}

  /// Looks at the clock.
  [[nodiscard]] bool has_passed() {
    const TimePoint now = Clock::now();
    if (now >= at_ && now - at_ > by_far && !was_late_) {
      was_late_ = true;
      at_ = now + moment;
    }
    return now >= at_;
  }
  /// When to look again; later than it was at first where it was found to have passed by far.
  [[nodiscard]] TimePoint at() const { return at_; }

 private:
  static constexpr Milliseconds by_far{200};
  static constexpr Milliseconds moment{200};

  TimePoint at_;
  bool was_late_ = false;
};

}  // namespace rex::shell
