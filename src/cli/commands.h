// The subcommands. Each returns the process's exit code: 0 done, 1 failed, 2 wrong usage; `run` and `shell` return
// their command's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/client.h"
#include "shell/sessions.h"

namespace rex::cli {

struct ServeOptions {
  bool is_private = false;                                     // not to be found by the user's other programs
  std::size_t journal_memory = shell::default_journal_memory;  // bytes of the output of all sessions
};

/// Serves one client on standard input and output, to the end of input.
int serve_stdio(shell::Nursery& nursery, ServeOptions options);

/// Serves whoever connects to `address`, unix:PATH, until SIGINT, SIGTERM or SIGHUP.
int serve_listening(shell::Nursery& nursery, const std::string& address, ServeOptions options);

/// Sends one request and prints the result, or the error on standard error.
int call(const Where& where, const std::string& method, const std::string& params);

/// Runs a command with its output as it comes. One word is a command line for sh, several are a program's argv.
int run(const Where& where, std::vector<std::string> words);

/// Lists the sessions of every instance of this user, or of the one at `address`.
int sessions(const std::string& address, bool as_json);

struct LogsOptions {
  std::string session;
  bool follow = false;
  std::optional<std::int64_t> from;  // absent: the oldest byte there is
};
/// Prints what a session has written.
int logs(const std::string& address, LogsOptions options);

/// Ends sessions with all they started.
int kill(const std::string& address, std::vector<std::string> names);

struct ShellOptions {
  std::string session;  // empty: a new one of the user's own shell
  bool takeover = false;
};
/// A person's terminal on a session.
int shell(const Where& where, ShellOptions options);

/// Says what this machine offers and what it lacks.
int doctor(shell::Nursery& nursery);

}  // namespace rex::cli
