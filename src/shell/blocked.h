// What a thread of another process is blocked in, as far as its terminal goes: the kernel's own word, from
// /proc/PID/task/TID/syscall, without stopping anything. Knows no process groups and no sessions.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "shell/foreign_fd.h"

namespace rex::shell {

/// In ascending order of how surely the thread waits for the terminal.
enum class Block {
  elsewhere,  // in anything that is no wait for the terminal
  child,      // in a wait for a child
  refused,    // we may not look (another user's, set-uid, not dumpable)
  running,    // on a CPU, or about to be
  unclear,    // it may wait for the terminal: io_uring, a program of another architecture
  several,    // it polls the terminal and things that come from elsewhere: a server, an ssh client
  timed,      // it polls the terminal and nothing else, until a time
  poll,       // likewise, for ever
  read,       // it reads the terminal
};

struct ThreadState {
  pid_t pid = 0;
  pid_t thread = 0;
  Block block = Block::elsewhere;
  std::uint64_t run_ns = 0;  // time on a CPU so far
  std::uint64_t turns = 0;   // how often it was put on one
  bool counted = false;      // run_ns and turns are known; also of a process that we may not look into
  bool foreign = false;      // it waits for something that comes from elsewhere

  /// Whether the thread has done nothing since `earlier`.
  [[nodiscard]] bool has_slept_since(const ThreadState& earlier) const {
    return counted && earlier.counted && pid == earlier.pid && thread == earlier.thread && run_ns == earlier.run_ns &&
           turns == earlier.turns;
  }
};

/// `tty_nr`: of the process's controlling terminal. `state`: of the process, as /proc/PID/stat has it.
ThreadState look_at_thread(pid_t pid, pid_t thread, int tty_nr, char state, const TerminalId& terminal);

/// The counters alone; `counted` is false when the thread is gone.
ThreadState count_thread(pid_t pid, pid_t thread);

}  // namespace rex::shell
