// Notices a loop that computes and does not turn any more: a mistake of ours, by which nobody is served. An idle
// process is not woken for it, and a stopped, sleeping or swapping one is not suspected, as what is counted is the
// loop's own time on a processor (acceptance C13). A loop that is held up without computing is not noticed; what may
// block is done by workers.
#pragma once

#include <ctime>
#include <memory>

#include "base/async.h"

namespace rex {

class Watchdog {
 public:
  /// For the loop of the calling thread. One that has not turned for 10 to 20 s of computing is noted as an incident,
  /// with the place where it is. Then, if `ends`, SIGVTALRM ends the process, so that whoever started it can start
  /// another.
  Watchdog(Executor executor, bool ends);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct Asked;

  static Task<> answer(std::shared_ptr<Asked> asked);

  std::shared_ptr<Asked> asked_;
  timer_t timer_{};
  bool watches_ = false;
};

}  // namespace rex
