// What is particular to one kind of shell: how it is started, the texts that make it report, how its records and
// syntax errors read. Pure text; knows no processes and no descriptors.
//
// The shell reads its lines from a private pipe on its standard input, never from the terminal. A command is a file
// that it sources with standard input set to the terminal. Behind it in the pipe lies a report line, which the shell
// can only come to once the command is over, however it ended; the report is one write to a second private pipe.
// No prompt, hook, echo or output is involved, so none of them can fake or hide the end of a command.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rex::shell {

enum class Startup { clean, interactive, login };

/// How a shell gets its lines.
enum class Feed {
  stream,   // from a pipe on its standard input, which it reads byte by byte or keeps through an interrupt
  packets,  // likewise, but it reads blocks and forgets them when interrupted: one packet a line (pipe2 O_DIRECT)
  loop,     // it is typed, with one key, a loop that reads them by a path; its standard input is the terminal
};

/// Paths through which the shell reaches our descriptors.
struct ChannelPaths {
  std::string command;   // the text to source
  std::string report;    // where records are written
  std::string traps;     // where a trap is put aside
  std::string lines;     // where a loop reads its lines
  std::string terminal;  // where a loop lets commands write
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
  std::int64_t line;   // 1 is the first line of the command
  std::string text;    // the shell's own words, without our path
  bool whole = false;  // the shell reads all of a text before it runs any of it
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

  [[nodiscard]] virtual Feed feed() const { return Feed::stream; }

  /// Arguments behind those, which name our paths and are not shown to anybody.
  [[nodiscard]] virtual std::vector<std::string> private_arguments(const ChannelPaths& /*paths*/) const { return {}; }

  /// The files such a shell would read in such a start, by its manual: whether they are there or not. `variable` gives
  /// the environment it starts with.
  [[nodiscard]] virtual std::vector<std::string> startup_files(
      Startup startup, const std::function<std::string(const std::string&)>& variable) const = 0;

  /// Whether a stopped foreground job has the status 128 + the signal; else it has 0 or that of the command before.
  [[nodiscard]] virtual bool status_tells_stopped() const { return true; }

  /// Text to source once, before anything else.
  [[nodiscard]] virtual std::string prologue(const ChannelPaths& paths) const = 0;

  /// The lines that run the prologue and report as number 0. They may be sent again until a record comes.
  [[nodiscard]] virtual std::vector<std::string> start_lines(const ChannelPaths& paths) const = 0;

  /// The command that sources a file of the user's.
  [[nodiscard]] virtual std::string source_command(std::string_view path) const;

  /// What is put before a command on its first line to give the user's own state back; mostly empty.
  /// `flags` and `traps` are what the last record said, `last_status` is what `$?` is to be behind it.
  [[nodiscard]] virtual std::string restore_prefix(const ChannelPaths& paths, std::string_view flags,
                                                   std::string_view traps, int last_status) const = 0;

  /// What is put on a line of its own behind a command, so that the states of its pipeline can be told; mostly empty.
  [[nodiscard]] virtual std::string epilogue(std::string_view /*text*/) const { return {}; }

  /// The lines that run a command and report it. The second reports what has not been: an interrupt, an unset variable
  /// under `set -u`, a failed special builtin make a shell throw away the rest of the first.
  [[nodiscard]] virtual std::vector<std::string> run_lines(const ChannelPaths& paths, const Run& run) const = 0;

  /// Whether a shell that runs `text` must be handled with care from then on. May say yes too often.
  [[nodiscard]] virtual bool calls_for_care(std::string_view text) const = 0;

  /// A line that makes the shell report command `number` if it has not.
  [[nodiscard]] virtual std::string report_line(std::uint64_t number) const;

  /// Finds the shell's complaint about `text`, which it read from `command_path`, in a command's output.
  [[nodiscard]] virtual std::optional<SyntaxError> find_syntax_error(std::string_view output,
                                                                     std::string_view command_path, int status,
                                                                     std::string_view text) const = 0;
};

/// The dialect of a shell by its file name ("bash", "/bin/sh"…), or null for shells that cannot be managed. `real` is
/// the file that this name leads to: what is called sh is mostly another shell's second name.
const Dialect* dialect_for(std::string_view shell, std::string_view real);

/// Parses one record (without its terminating NUL); nullopt if it is not one.
std::optional<Record> parse_record(std::string_view text);

}  // namespace rex::shell
