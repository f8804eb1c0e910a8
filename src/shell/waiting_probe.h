// Whether the program that has a terminal waits for input: looks at it again and again, and says so only of what two
// looks agree on. Passive: told when to look, says when next. Knows no sessions, no jobs and no journals.
//
// There is no event for "a reader went to sleep" that an ordinary user may have, so this is asked again, ever less
// often: a pause is a twentieth of the time since something last stirred, and at least fifty times what a look cost.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "base/async.h"
#include "shell/foreground.h"
#include "shell/waiting.h"

namespace rex::shell {

class WaitingProbe {
 public:
  enum class Verdict {
    unsettled,  // not looked at twice yet
    elsewhere,  // nobody reads the terminal
    unknown,    // some of them may not be looked into
    waiting,    // waiting() says for what
    stopped,    // all of the foreground is stopped, or it waits for what is
  };

  /// `master` and `slave` are the session's terminal; its users are below `root`. `alternate_screen` is asked when it
  /// matters to the kind.
  WaitingProbe(int master, int slave, pid_t root, std::function<bool()> alternate_screen);

  /// Another command begins: a terminal that does not echo now is no sign that it asks for a secret.
  void command_began(TimePoint now);
  /// Output came, or something was typed: what was found is no longer so.
  void stir(TimePoint now);
  /// How long until the next look. `now` is the clock's.
  Clock::duration look(TimePoint now);

  [[nodiscard]] Verdict verdict() const { return verdict_; }
  [[nodiscard]] const std::optional<Waiting>& waiting() const { return waiting_; }

 private:
  void judge(const ForegroundLook& next, TimePoint now);
  [[nodiscard]] bool asks_for_secret(const ForegroundLook& look) const;
  [[nodiscard]] bool is_confirmed(const ForegroundLook& next, TimePoint now) const;
  [[nodiscard]] bool others_work(const ForegroundLook& next, TimePoint now) const;
  [[nodiscard]] bool input_is_consumed(const ForegroundLook& next, TimePoint now) const;
  [[nodiscard]] WaitingKind kind_of(const ForegroundLook& look) const;
  void find(WaitingHow how, Evidence evidence, const ForegroundLook& look);
  [[nodiscard]] Clock::duration pause(TimePoint now) const;

  int master_;
  int slave_;
  TerminalId terminal_;
  pid_t root_;
  std::function<bool()> alternate_screen_;

  Verdict verdict_ = Verdict::unsettled;
  std::optional<Waiting> waiting_;
  ForegroundLook last_;     // what the verdict rests on
  TimePoint last_at_{};     // when it was taken
  Clock::duration cost_{};  // of taking it
  TimePoint row_since_{};   // since when every look found the same reader
  ForegroundLook window_;   // an earlier look, to measure against what ran since; at most working_time older
  TimePoint window_at_{};
  TimePoint stirred_{};
  TimePoint stopped_since_ = never;  // every look found all stopped
  unsigned long long began_ = 0;     // the command, in clock ticks since boot
  bool secretive_before_ = false;    // the terminal did not echo when the command began
};

}  // namespace rex::shell
