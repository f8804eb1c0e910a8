// What to start, how that travels to the process that starts it, and the exec itself. Plain code that runs between fork
// and exec; knows no guardian and no loop.
#pragma once

#include <string>
#include <vector>

#include "shell/limits.h"

namespace rex::shell {

/// What to start. Strings are bytes without NUL. `cwd` empty means ours.
struct Launch {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value; PATH in it decides where argv[0] is looked for
  std::string cwd;
  bool controlling_tty = false;  // standard error is a terminal that becomes the program's own
  std::vector<Rlimit> limits = {};
};

std::string encode_launch(const Launch& launch);

/// Points into the encoded text, which must outlive it.
struct DecodedLaunch {
  char* cwd;
  char** argv;
  char** env;
  bool controlling_tty;
  std::vector<Rlimit> limits;
};

DecodedLaunch decode_launch(char* text);

/// Sets the launch's resource limits for the caller. False, with errno, where one cannot be set.
bool apply_limits(const DecodedLaunch& launch);

/// execvpe with the PATH of the *new* environment; returns only with the errno of its failure.
int exec_program(const DecodedLaunch& launch);

/// Closes every descriptor from `first` on.
void close_from(unsigned first);

/// Every signal's default action, as a new program expects it.
void default_signals();

}  // namespace rex::shell
