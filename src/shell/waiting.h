// What is said of a program that waits for input, as plain values. Names follow the wire's; waiting_probe.h finds it
// out.
#pragma once

#include <sys/types.h>

#include <string>

namespace rex::shell {

enum class WaitingKind { line, secret, fullscreen, pager, editor };
enum class WaitingHow { reading, listening };
enum class Evidence { syscall, termios };

/// reading: blocked on the terminal and on nothing else; listening: the terminal is one of several things.
struct Waiting {
  WaitingKind kind;
  WaitingHow how;
  Evidence evidence;
  pid_t pid;
  std::string command;  // the kernel's short name
  std::string text;     // the last line shown; filled in by who has the output
};

}  // namespace rex::shell
