// What a neighbour's silence means: whether to ask it, to doubt it, or to give it up. Pure; knows no link.
#pragma once

#include "base/async.h"

namespace rex::relay {

/// How long this machine has been up, with the time that it slept, which Clock leaves out.
Milliseconds boot_time();

/// After a sleep a neighbour is given up when it has not answered for so long, where it would have longer else. Time
/// enough for a network that wakes up with the machine: Wi-Fi takes some seconds.
inline constexpr Milliseconds patience_after_sleep{15'000};

/// Looks at a link from time to time. Whoever was stopped or asleep itself, or reads nothing, learns nothing from
/// silence: that is no alarm. But a link that a sleep has outlived may be dead, so it is asked right after it.
class Silence {
 public:
  enum class Finding { heard, unknown, silent, degraded, lost };

  /// `keep_alive`: it is asked after so long, and lost after three times as long.
  Silence(Milliseconds keep_alive, TimePoint now, Milliseconds booted)
      : keep_alive_(keep_alive), pause_(keep_alive), looked_(now), booted_(booted) {}

  /// How long to wait before the next look.
  [[nodiscard]] Milliseconds pause() const { return pause_; }
  /// `heard`: something came since the look before. `holding_back`: we read nothing ourselves.
  Finding look(TimePoint now, Milliseconds booted, bool heard, bool holding_back);
  /// How long nothing has been heard that proves something.
  [[nodiscard]] Milliseconds lasted() const { return lasted_; }

 private:
  Milliseconds keep_alive_;
  Milliseconds pause_;
  TimePoint looked_;
  Milliseconds booted_;
  Milliseconds lasted_{0};
  int silent_ = 0;  // looks in a row
};

}  // namespace rex::relay
