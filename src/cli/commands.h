// The subcommands. Each returns the process's exit code: 0 done, 1 failed, 2 wrong usage; `run` returns its command's.
#pragma once

#include <string>
#include <vector>

#include "shell/nursery.h"

namespace rex::cli {

/// Serves one client on standard input and output, to the end of input.
int serve_stdio(shell::Nursery& nursery);

/// Sends one request to an instance of its own and prints the result, or the error on standard error.
int call(shell::Nursery& nursery, const std::string& method, const std::string& params);

/// Runs a command with its output as it comes. One word is a command line for sh, several are a program's argv.
int run(shell::Nursery& nursery, std::vector<std::string> words);

/// Says what this machine offers and what it lacks.
int doctor(shell::Nursery& nursery);

}  // namespace rex::cli
