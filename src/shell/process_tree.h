// Looking at processes through /proc: who descends from whom, what they are called, which terminal they hold.
// Async-signal-agnostic plain reads; used by the guardian and by sessions.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rex::shell {

struct Process {
  pid_t pid;
  std::string command;  // the kernel's short name (comm), bytes
};

/// The processes `parent` has forked or was given, zombies among them.
std::vector<pid_t> children(pid_t parent);

/// Every living (not zombie) process below `root`, without `root` and without the trees of those that are `spared`.
std::vector<pid_t> descendants(pid_t root, bool (*spared)(pid_t pid) = nullptr);

/// The kernel's short name of a process; empty when it is gone.
std::string command_of(pid_t pid);

/// Whether the process exists and is no zombie.
bool is_alive(pid_t pid);

/// Whether the process waits for something (state S).
bool is_asleep(pid_t pid);

/// Whether the process is on a processor, or would be if there were one for it or its page had come from the disk.
bool is_running(pid_t pid);

/// The processor time its main thread has had; nullopt where the kernel does not tell.
std::optional<std::chrono::nanoseconds> run_time(pid_t pid);

/// Whether the process is stopped (by SIGSTOP, ^Z, or reading a terminal from the background).
bool is_stopped(pid_t pid);

/// Sends `signal` through a pidfd, only if `pid` is still the same process below the caller. False when it was not
/// delivered (gone, or not permitted).
bool signal_descendant(pid_t pid, int signal);

/// Living members of a process group among the descendants of `root`.
std::vector<pid_t> group_members(pid_t root, pid_t group);

/// Whether the process has the terminal device at `tty_path` open as its standard output or error.
bool writes_to(pid_t pid, const std::string& tty_path);

}  // namespace rex::shell
