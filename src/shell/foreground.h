// One look at a terminal: who has it, and what those processes are blocked in. Knows no history and no sessions;
// waiting_probe.h compares looks.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <optional>
#include <string>
#include <vector>

#include "shell/blocked.h"

namespace rex::shell {

/// A thousand processes are a look of 20 ms; whoever has more is not judged.
inline constexpr std::size_t max_looked_at_processes = 1000;
inline constexpr std::size_t max_looked_at_threads = 2000;

struct ForegroundLook {
  pid_t group = 0;
  termios modes{};           // of the terminal that the reader reads: an inner one, where a program runs it (script)
  bool modes_known = false;  // an inner terminal may be closed to us
  bool inner = false;        // that is so
  bool stopped = false;      // the whole group is, or it waits for children that all are
  bool to_be_told = false;   // that it is stopped: a shell that waits for it takes the terminal back, and is at work
  ThreadState best;          // who waits for the terminal most surely; of the refused ones, the first
  std::string command;       // of that process
  std::vector<ThreadState> all;  // everyone looked at

  [[nodiscard]] bool asks_secret() const {
    return modes_known && (modes.c_lflag & ICANON) != 0 && (modes.c_lflag & ECHO) == 0;
  }
};

/// `root`: the process below which the terminal's users are. `since`: when the command began, in clock ticks since
/// boot.
ForegroundLook look_at_foreground(int master, const TerminalId& terminal, pid_t root, unsigned long long since);

/// Now, as /proc/PID/stat counts it.
unsigned long long clock_ticks_now();

/// Whether nobody of an earlier look has done anything since, and the terminal is as it was: then nothing that it found
/// can have changed. Cheap: two system calls and a small read a thread.
bool is_as_before(int master, const ForegroundLook& earlier);

}  // namespace rex::shell
