// A running shell's private channels: the pipe it reads its lines from, the memory files with command texts, the pipe
// it reports on. Turns "run this text" into lines and bytes on the report pipe into records. Knows no terminal output;
// of the terminal it knows what a shell with a loop needs (dialect_fish.cc): its one key, and its modes.
#pragma once

#include <termios.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "base/fd.h"
#include "shell/dialect.h"
#include "shell/pty.h"

namespace rex::shell {

class ShellDriver {
 public:
  /// `dialect` must outlive the driver.
  ShellDriver(Executor executor, const Dialect& dialect);

  /// The end of the line pipe that becomes the shell's standard input; to be closed here once the shell has it. Empty
  /// for a shell with a loop, whose standard input is the terminal.
  Fd take_line_reader() { return sink_ ? Fd() : std::move(line_reader_); }
  /// What becomes the standard output of a shell with a loop; empty for others.
  Fd take_sink_writer() { return std::move(sink_writer_); }
  /// The session's terminal, which must outlive the driver.
  void use_terminal(int master, const Pty& pty);

  /// What comes behind the dialect's arguments.
  [[nodiscard]] std::vector<std::string> private_arguments() const { return dialect_.private_arguments(paths_); }

  /// Sends the prologue. The shell answers with record 0. `careful`: it reads files of its user's before.
  void start(bool careful);
  /// Sends it once more, to a shell that something has eaten it from.
  void start_again();

  /// Runs `text` as command `number`, at most once at a time.
  void run(std::uint64_t number, std::string_view text, const Redirections& to);

  /// Some process is left behind, or a command was interrupted: the shell will have something to say about it.
  void take_care() { careful_ = true; }

  /// Command `number` was sent an interrupt, which may have come before the shell has begun with it.
  void interrupted(std::uint64_t number);

  /// Makes the shell report command `number` if the line that runs it was thrown away by an interrupt; harmless if not.
  void ask_again(std::uint64_t number);

  /// Whether all lines sent have been taken by the shell.
  [[nodiscard]] bool lines_taken() const;
  /// Whether the shell's line editor waits for the key that starts our loop.
  [[nodiscard]] bool at_a_prompt() const { return at_a_prompt_; }

  /// `$?` for the next command.
  [[nodiscard]] int last_status() const { return last_status_; }

  /// The records that have come since the last call; of each command only the first counts.
  std::vector<Record> take_records();

  /// Waits for records.
  AsyncFd& reports() { return reports_; }
  /// True when no process reads the lines any more: the shell ended, or was replaced by another program (`exec`).
  Task<bool> abandoned();
  /// Ends all waits.
  void close();

  /// What the shell had to say about the command it ran last, if it could not understand it.
  [[nodiscard]] std::optional<SyntaxError> syntax_error(std::string_view output, int status) const;
  /// What went to the standard output of a shell with a loop before it was ready.
  [[nodiscard]] const std::string& startup_noise() const { return noise_; }
  [[nodiscard]] const Dialect& dialect() const { return dialect_; }

 private:
  ShellDriver(Executor executor, const Dialect& dialect, Pipe lines, Pipe reports);
  void write_command(std::string_view prefix, std::string_view text, std::string_view epilogue);
  void send(std::string_view line);
  void type_key();
  void begin_loop();
  std::optional<Record> loop_begun();
  std::optional<Record> never_begun();
  std::optional<Record> read_record(std::string_view text);

  const Dialect& dialect_;
  Fd line_reader_;
  AsyncFd lines_;
  Fd command_;
  std::size_t command_size_ = 0;
  std::size_t prefix_size_ = 0;
  Fd traps_;
  Fd report_writer_;  // kept so that the report pipe never ends; the shell opens its own through /proc
  AsyncFd reports_;
  ChannelPaths paths_;
  bool careful_ = false;  // some text may have switched on what would show or act on our own words
  std::string partial_;   // a record that has not come whole; bounded by PIPE_BUF, as a shell writes it at once
  std::string flags_;     // what the last record said, to be restored for the next command
  int last_status_ = 0;   // likewise

  // Of a shell with a loop only:
  std::unique_ptr<AsyncFd> sink_;  // its standard output
  Fd sink_writer_;
  std::string noise_;  // what came there before the prologue; at most max_noise_bytes
  bool noise_ended_ = false;
  int master_ = -1;
  int slave_ = -1;
  std::optional<termios> modes_;  // the terminal's, to be given back when the loop begins
  bool at_a_prompt_ = false;
  bool in_loop_ = false;
  int keys_typed_ = 0;  // since the last loop began
  bool ready_ = false;

  std::string lines_of_pending_;
  std::uint64_t pending_ = 0;  // the command that has not been reported
  bool interrupted_ = false;   // and an interrupt was sent to it
};

}  // namespace rex::shell
