// How long to wait before a lost host is dialled once more. Knows no host.
#pragma once

#include "base/async.h"
#include "base/error.h"

namespace rex::relay {

inline constexpr Milliseconds first_pause{100};
inline constexpr Milliseconds longest_pause{5'000};

/// Doubles from try to try, up to the longest.
class Pause {
 public:
  /// The next one, shortened by up to a quarter: what was lost together does not come back at one moment.
  Milliseconds next();
  /// What next() will say at most.
  [[nodiscard]] Milliseconds most() const { return most_; }
  void begin_anew() { most_ = first_pause; }

 private:
  Milliseconds most_ = first_pause;
};

/// Whether a dial that failed so may succeed by itself later. Not one that wants a person, or is refused for what it
/// is.
bool is_worth_another_dial(const Error& failure);

}  // namespace rex::relay
