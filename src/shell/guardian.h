// The processes that stand between us and what we start, so that nothing we started can outlive its session.
//
//   rex-rpc ── nursery ── guardian ── program ── …
//
// The nursery is forked first thing in main, while the process is small: forking from it is cheap, copies none of
// our journals, and is safe whatever threads we start later. It keeps one guardian in stock, so that nobody waits for a
// fork, and makes another when a program takes that. A guardian is a subreaper, so every descendant of the program,
// double-forked and setsid ones too, stays below it in the process tree. The guardian reports the program's end with
// its true wait status, ends the whole tree when asked, and does so by itself when the other end of its control socket
// is gone, which is also how it learns of a kill -9 of rex-rpc.
// This file is the guardian: plain blocking code that runs in a process of its own. nursery.h makes it, program.h is
// our side of it.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>

namespace rex::shell {

/// One step of ending a tree: send the signal to all, then wait up to this long for all to be gone.
struct EndStep {
  std::int32_t signal;
  std::int32_t grace_ms;
};

inline constexpr int max_end_steps = 4;

/// How long the last step, KILL, goes on without killing anybody before it reports survivors (processes in state D, or
/// another user's).
inline constexpr int kill_patience_ms = 2000;

/// What a process that keeps daemon sessions calls itself. Where it was started in a tree that is ended, it stays.
inline constexpr const char* keeper_name = "rex-session";

// Messages on the control socket (SOCK_SEQPACKET, one packet each).
struct EndTree {
  std::int32_t count;
  EndStep steps[max_end_steps];  // followed by KILL
  std::int32_t release;          // 1: forget the tree instead, leave every process running
};

struct Report {
  enum Kind : std::int32_t { started, failed, exited, tree_ended };
  Kind kind;
  pid_t pid;             // started: the program; exited: likewise
  pid_t guardian;        // started
  std::int32_t error;    // failed: errno
  std::int32_t what;     // failed: 'c' chdir, 'x' exec, 't' terminal, 'f' fork, 'l', 'p' limits, 'g' cgroup
  std::int32_t status;   // exited: wait status
  std::int32_t reached;  // tree_ended: index of the last step sent, steps.count for KILL, -1 if none was needed
  std::int32_t left;     // tree_ended: 0 when nothing is left, which is proven
  rusage usage;
  std::int64_t processes;     // started: what a cgroup holds the tree to, 0 when none does
  std::int64_t memory_bytes;  // started: likewise
};

/// Runs a guardian in a process that was forked for it. `received` are descriptors of: its control socket, the encoded
/// launch, and the program's standard input, output and error. SIGCHLD must be blocked.
[[noreturn]] void run_guardian(const int (&received)[5]);

}  // namespace rex::shell
