#include "relay/silence.h"

#include <ctime>

#include <algorithm>
#include <utility>

namespace rex::relay {

namespace {

constexpr int degraded_after = 2;
constexpr int lost_after = 3;

}  // namespace

Milliseconds boot_time() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::duration_cast<Milliseconds>(std::chrono::seconds(time.tv_sec) +
                                                  std::chrono::nanoseconds(time.tv_nsec));
}

Silence::Finding Silence::look(TimePoint now, Milliseconds booted, bool heard, bool holding_back) {
  const auto passed = std::chrono::duration_cast<Milliseconds>(now - std::exchange(looked_, now));
  const Milliseconds asleep = booted - std::exchange(booted_, booted) - passed;
  const bool was_late = passed > pause_ + pause_ / 2;
  if (asleep > keep_alive_ / 2) {
    // What came may have come before the sleep. Whoever is still there answers now.
    pause_ = std::min(keep_alive_, patience_after_sleep / lost_after);
    silent_ = 0;
    lasted_ = Milliseconds(0);
    return Finding::silent;
  }
  if (heard) {
    pause_ = keep_alive_;
    silent_ = 0;
    lasted_ = Milliseconds(0);
    return Finding::heard;
  }
  if (was_late || holding_back) {
    return Finding::unknown;
  }
  lasted_ += passed;
  ++silent_;
  if (silent_ >= lost_after) {
    return Finding::lost;
  }
  return silent_ >= degraded_after ? Finding::degraded : Finding::silent;
}

}  // namespace rex::relay
