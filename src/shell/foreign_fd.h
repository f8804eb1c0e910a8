// What a descriptor of another process is, as far as waiting for a terminal goes. Plain reads of /proc and one question
// to the kernel about socket pairs; knows no threads, no system calls and no sessions.
#pragma once

#include <sys/types.h>

#include <vector>

namespace rex::shell {

/// A terminal as other processes' descriptors and their /proc/PID/stat show it.
struct TerminalId {
  dev_t device = 0;       // of its node
  dev_t file_system = 0;  // where the node is: two devpts mounts number their terminals alike
  int tty_nr = 0;         // field 7 of /proc/PID/stat
};

TerminalId terminal_id(int slave);
/// The number of a pseudo-terminal; -1 for any other.
int pts_number(int tty_nr);

enum class FdKind {
  gone,      // closed meanwhile, or not ours to see
  terminal,  // the one asked for
  own,       // only the process itself can make it ready: eventfd, signalfd, inotify, both ends of a pipe or socketpair
  timer,
  set,      // an epoll set
  still,    // a file or device that nobody waits for
  foreign,  // somebody else makes it ready: a socket, a pipe, another terminal, a process
};

/// `tty_nr`: of the process's controlling terminal, which /dev/tty means.
FdKind kind_of_fd(pid_t pid, int tty_nr, int fd, const TerminalId& terminal);

/// The descriptors that an epoll set of the process waits to read from; -1 stands for those that were too many to list.
std::vector<int> read_set_of_epoll(pid_t pid, int fd);

/// Whether a standard input is a pipe: a pager has its text from there and its keys from the terminal.
bool reads_a_pipe(pid_t pid);

}  // namespace rex::shell
