// What is particular to one kind of shell: how it is started, the texts that make it report, how its records and
// syntax errors read. Pure text; knows no processes and no descriptors.
//
// The shell reads its lines from a private pipe on its standard input, never from the terminal. A command is a file
// that it sources with standard input set to the terminal. Behind it in the pipe lies a report line, which the shell
// can only come to once the command is over, however it ended; the report is one write to a second private pipe.
// No prompt, hook, echo or output is involved, so none of them can fake or hide the end of a command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rex::shell {

enum class Startup { clean, interactive, login };

/// Paths through which the shell reaches our descriptors.
struct ChannelPaths {
  std::string command;  // the text to source
  std::string report;   // where records are written
  std::string traps;    // where an ERR trap is put aside (bash)
};

/// One end of a command, as the shell told it.
struct Record {
  std::uint64_t number;
  int status;
  std::vector<int> pipe_status;
  std::string flags;  // `$-` at the end of the command, without what is always there
  std::string cwd;    // the shell's $PWD, logical and not to be believed blindly
};

struct SyntaxError {
  std::int64_t line;  // 1 is the first line of the command
  std::string text;   // the shell's own words, without our path
};

/// A command's standard descriptors, where they are not the terminal.
struct Redirections {
  std::string input;                  // path for standard input
  std::optional<std::string> output;  // path for standard output and error
};

/// One command to run.
struct Run {
  std::uint64_t number;
  Redirections to;
  int last_status;  // what `$?` is to be when it begins
  bool careful;     // hide our own words from traces and traps; a shell that was told nothing noisy is spared that
};

class Dialect {
 public:
  virtual ~Dialect() = default;

  [[nodiscard]] virtual std::vector<std::string> arguments(Startup startup) const = 0;

  /// Whether lines must go as one packet each (pipe2 O_DIRECT): such shells read blocks and forget what they read
  /// ahead when they are interrupted.
  [[nodiscard]] virtual bool wants_packets() const = 0;

  /// Text to source once, before anything else.
  [[nodiscard]] virtual std::string prologue(const ChannelPaths& paths) const = 0;

  /// The lines that run the prologue and report as number 0. They may be sent again until a record comes.
  [[nodiscard]] virtual std::vector<std::string> start_lines(const ChannelPaths& paths) const = 0;

  /// What is put before a command on its first line to give the user's own state back; mostly empty.
  /// `flags` and `traps` are what the last record said, `last_status` is what `$?` is to be behind it.
  [[nodiscard]] virtual std::string restore_prefix(std::string_view flags, std::string_view traps,
                                                   int last_status) const = 0;

  /// The lines that run a command and report it. The second reports what has not been: an interrupt, an unset variable
  /// under `set -u`, a failed special builtin make a shell throw away the rest of the first.
  [[nodiscard]] virtual std::vector<std::string> run_lines(const ChannelPaths& paths, const Run& run) const = 0;

  /// Whether a shell that runs `text` must be handled with care from then on. May say yes too often.
  [[nodiscard]] virtual bool calls_for_care(std::string_view text) const = 0;

  /// A line that makes the shell report command `number` if it has not.
  [[nodiscard]] virtual std::string report_line(std::uint64_t number) const;
};

/// The dialect of a shell by its file name ("bash", "/bin/sh"…), or null for shells that cannot be managed yet.
const Dialect* dialect_for(std::string_view shell);

/// Parses one record (without its terminating NUL); nullopt if it is not one.
std::optional<Record> parse_record(std::string_view text);

/// Finds the shell's complaint about the text at `command_path` in a command's output.
std::optional<SyntaxError> find_syntax_error(std::string_view output, std::string_view command_path);

}  // namespace rex::shell
