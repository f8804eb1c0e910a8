// The task that looks after a session's terminal while something runs in it. Knows no jobs: it is told when there is
// one, and when something stirs; between jobs it sleeps without a timer.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/async.h"
#include "shell/incarnation.h"
#include "shell/waiting_probe.h"

namespace rex::shell {

class WaitingWatch : public std::enable_shared_from_this<WaitingWatch> {
 public:
  /// `changed` is called on the loop whenever the verdict is another one; `alternate_screen` as for the probe.
  WaitingWatch(Executor executor, std::shared_ptr<Incarnation> in, std::function<void()> changed,
               std::function<bool()> alternate_screen);

  void command_began();
  void command_ended();
  /// Output came, or something was typed. Cheap: wakes the task only when it would sleep too long.
  void stir(TimePoint now);

  [[nodiscard]] const std::optional<Waiting>& waiting() const { return probe_.waiting(); }
  [[nodiscard]] bool is_reading() const { return waiting() && waiting()->how == WaitingHow::reading; }
  [[nodiscard]] WaitingProbe::Verdict verdict() const { return probe_.verdict(); }
  /// Whether it can be known when the program reads the terminal anew.
  [[nodiscard]] bool can_tell() const {
    return verdict() != WaitingProbe::Verdict::unknown && !(waiting() && waiting()->how == WaitingHow::listening);
  }

 private:
  static Task<> watch(std::shared_ptr<WaitingWatch> self);
  void look(TimePoint now);

  Executor executor_;
  std::shared_ptr<Incarnation> in_;
  std::function<void()> changed_;
  WaitingProbe probe_;
  bool command_runs_ = false;
  bool watching_ = false;  // the task lives; it serves commands that follow each other quickly
  TimePoint next_look_{};
  Event sooner_;
};

}  // namespace rex::shell
