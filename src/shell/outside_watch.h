// Conditions of a wait that are not about a session's output: ports and files. Knows no session and no job.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/async.h"
#include "shell/file_watch.h"
#include "shell/session_types.h"

namespace rex::shell {

/// Lives in the frame of the waiting coroutine; what it watches ends with it.
class OutsideWatch {
 public:
  /// Relative paths of `any` are taken from `cwd`.
  OutsideWatch(Executor executor, Workers& workers, const std::vector<Condition>& any, const std::string& cwd);
  ~OutsideWatch();
  OutsideWatch(const OutsideWatch&) = delete;
  OutsideWatch& operator=(const OutsideWatch&) = delete;

  /// Whether the condition at `index` holds. The kernel does not tell when somebody begins to listen: a port is looked
  /// at when `next_look` has come, by the processes of `tree`, less and less often.
  bool holds(std::size_t index, const Condition& condition, const std::function<std::vector<pid_t>()>& tree);

  /// All conditions were asked once more.
  void looked();
  [[nodiscard]] TimePoint next_look() const { return next_look_; }
  /// No wait is so short that a file is not looked at once, unless its mount hangs.
  [[nodiscard]] TimePoint not_before(TimePoint deadline) const;

  void subscribe(Waiter& waiter);

 private:
  std::vector<std::shared_ptr<FileWatch>> files_;  // by condition; null for others
  TimePoint began_ = Clock::now();
  TimePoint next_look_ = never;
  Milliseconds pause_;
};

}  // namespace rex::shell
