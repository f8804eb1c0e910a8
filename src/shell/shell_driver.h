// A running shell's private channels: the pipe it reads its lines from, the memory files with command texts, the pipe
// it reports on. Turns "run this text" into lines and bytes on the report pipe into records. Knows no terminal output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "base/fd.h"
#include "shell/dialect.h"

namespace rex::shell {

class ShellDriver {
 public:
  /// `dialect` must outlive the driver.
  ShellDriver(Executor executor, const Dialect& dialect);

  /// The end of the line pipe that becomes the shell's standard input; to be closed here once the shell has it.
  Fd take_line_reader() { return std::move(line_reader_); }

  /// Sends the prologue. The shell answers with record 0. `careful`: it reads files of its user's before.
  void start(bool careful);

  /// Runs `text` as command `number`, at most once at a time.
  void run(std::uint64_t number, std::string_view text, const Redirections& to);

  /// Some process is left behind, or a command was interrupted: the shell will have something to say about it.
  void take_care() { careful_ = true; }

  /// Makes the shell report command `number` if the line that runs it was thrown away by an interrupt; harmless if not.
  void ask_again(std::uint64_t number);

  /// Whether all lines sent have been taken by the shell.
  [[nodiscard]] bool lines_taken() const;

  /// The records that have come since the last call; of each command only the first counts.
  std::vector<Record> take_records();

  /// Waits for records.
  AsyncFd& reports() { return reports_; }
  /// Becomes broken when no process reads the lines any more: the shell was replaced by another program (`exec`).
  AsyncFd& lines() { return lines_; }

  [[nodiscard]] const std::string& command_path() const { return paths_.command; }
  [[nodiscard]] const Dialect& dialect() const { return dialect_; }

 private:
  ShellDriver(Executor executor, const Dialect& dialect, Pipe lines, Pipe reports);
  void write_command(std::string_view prefix, std::string_view text);
  void send(std::string_view line);

  const Dialect& dialect_;
  Fd line_reader_;
  AsyncFd lines_;
  Fd command_;
  std::size_t command_size_ = 0;
  Fd traps_;
  Fd report_writer_;  // kept so that the report pipe never ends; the shell opens its own through /proc
  AsyncFd reports_;
  ChannelPaths paths_;
  bool careful_ = false;  // some text may have switched on what would show or act on our own words
  std::string partial_;   // a record that has not come whole; bounded by PIPE_BUF, as a shell writes it at once
  std::string flags_;     // what the last record said, to be restored for the next command
  int last_status_ = 0;   // likewise
};

}  // namespace rex::shell
