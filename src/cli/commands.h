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
  bool on_stdio = false;                                       // one client on standard input and output; ends with it
  std::vector<std::string> listen;                             // unix:PATH or tcp:HOST:PORT
  std::string token_file;                                      // for TCP; empty: the default one
  bool is_private = false;                                     // not to be found by the user's other programs
  std::size_t journal_memory = shell::default_journal_memory;  // bytes of the output of all sessions
};

/// Serves the client on standard input and output, to the end of input, and whoever connects to one of the addresses
/// meanwhile. Without that client, until SIGINT, SIGTERM or SIGHUP.
int serve(shell::Nursery& nursery, const ServeOptions& options);

/// Sends one request and prints the result, or the error on standard error.
int call(const Where& where, const std::string& method, const std::string& params);

/// Runs a command with its output as it comes. One word is a command line for sh, several are a program's argv.
int run(const Where& where, std::vector<std::string> words);

/// Lists the sessions of every instance of this user, or of the one that `where` names.
int sessions(const Where& where, bool as_json);

struct LogsOptions {
  std::string session;
  bool follow = false;
  std::optional<std::int64_t> from;  // absent: the oldest byte there is
};
/// Prints what a session has written.
int logs(const Where& where, LogsOptions options);

/// Ends sessions with all they started.
int kill(const Where& where, std::vector<std::string> names);

struct ShellOptions {
  std::string session;  // empty: a new one of the user's own shell
  bool takeover = false;
};
/// A person's terminal on a session.
int shell(const Where& where, ShellOptions options);

struct AgentOptions {
  std::string what;       // verify, adopt or remove
  std::string name;       // hosts::Agent::name; of verify and adopt
  std::string directory;  // of adopt
};
/// What the start script of a host asks of a rex-rpc that is there, or was just pushed.
int agent(const AgentOptions& options);

/// Serves an agent that speaks the Model Context Protocol on standard input and output.
int mcp(const Where& where);

/// Says what this machine offers and what it lacks.
int doctor(shell::Nursery& nursery);

/// Lists the hosts of the user's file, and whether they are connected.
int hosts(const Where& where, bool as_json);

/// Reaches the host that `where` names, puts nothing onto it, and says how that went and what is there.
int doctor_of_host(const Where& where);

}  // namespace rex::cli
