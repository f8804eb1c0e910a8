#include "shell/shell_driver.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace rex::shell {
namespace {

// Longer than any path plus the numbers: a record beyond this is not one.
constexpr std::size_t max_record_bytes = 64 * 1024;

constexpr std::size_t max_noise_bytes = 64 * 1024;

// What makes the line editor of a shell with a loop execute it; every other key does nothing there.
constexpr char loop_key = '\x1d';

Fd memory_file(const char* name) {
  Fd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd) {
    throw os_error("cannot make a memory file", errno);
  }
  return fd;
}

// The shell opens our descriptors by these names: nothing is left behind in any directory, whatever becomes of us.
std::string path_of(const Fd& fd) { return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd.get()); }

Pipe line_pipe(const Dialect& dialect) { return make_pipe(dialect.feed() == Feed::packets ? O_DIRECT : 0); }

}  // namespace

ShellDriver::ShellDriver(Executor executor, const Dialect& dialect)
    : ShellDriver(executor, dialect, line_pipe(dialect), make_pipe()) {}

ShellDriver::ShellDriver(Executor executor, const Dialect& dialect, Pipe lines, Pipe reports)
    : dialect_(dialect),
      line_reader_(std::move(lines.read)),
      lines_(executor, std::move(lines.write)),
      command_(memory_file("command")),
      traps_(memory_file("traps")),
      report_writer_(std::move(reports.write)),
      reports_(executor, std::move(reports.read)),
      paths_{path_of(command_), path_of(report_writer_), path_of(traps_), path_of(line_reader_), {}} {
  if (dialect_.feed() == Feed::loop) {
    Pipe sink = make_pipe();
    sink_ = std::make_unique<AsyncFd>(executor, std::move(sink.read));
    sink_writer_ = std::move(sink.write);
  }
}

void ShellDriver::use_terminal(int master, const Pty& pty) {
  master_ = master;
  slave_ = pty.slave();
  modes_ = terminal_modes(master);
  paths_.terminal = pty.path();
}

void ShellDriver::write_command(std::string_view prefix, std::string_view text, std::string_view epilogue) {
  std::string content;
  content.reserve(prefix.size() + text.size() + epilogue.size() + 2);
  content.append(prefix).append(text).append(1, '\n');
  if (!epilogue.empty()) {
    content.append(epilogue).append(1, '\n');
  }
  prefix_size_ = prefix.size();
  // In place, so that the path stays the same in every message a shell prints about it.
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = pwrite(command_.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno != EINTR) {
      throw os_error("cannot hold the command", errno);
    }
    done += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  }
  if (content.size() < command_size_ && ftruncate(command_.get(), static_cast<off_t>(content.size())) != 0) {
    throw os_error("cannot hold the command", errno);
  }
  command_size_ = content.size();
}

void ShellDriver::send(std::string_view line) {
  if (line.empty()) {
    return;
  }
  // No reader: the shell died, maybe by an earlier line. Its end is told by its process.
  if (::write(lines_.fd(), line.data(), line.size()) < 0 && errno != EPIPE) {
    throw os_error("cannot reach the shell", errno);
  }
}

void ShellDriver::start(bool careful) {
  careful_ = careful;
  write_command("", dialect_.prologue(paths_), "");
  start_again();
}

void ShellDriver::start_again() {
  if (at_a_prompt_) {
    type_key();
  }
  for (const std::string& line : dialect_.start_lines(paths_)) {
    send(line);
  }
}

void ShellDriver::interrupted(std::uint64_t number) {
  interrupted_ = interrupted_ || pending_ == number;
  if (!sink_) {
    ask_again(number);
  }
}

void ShellDriver::ask_again(std::uint64_t number) {
  if (sink_) {
    if (at_a_prompt_) {  // the editor has forgotten the key
      type_key();
    }
  } else if (lines_taken()) {  // else a report line is still in the pipe
    send(dialect_.report_line(number));
  }
}

void ShellDriver::begin_loop() {
  at_a_prompt_ = true;
  in_loop_ = false;
  int waiting = 0;  // a line that nobody has read, or the rest of one that was read in part
  std::array<char, 4096> lost;
  while (ioctl(line_reader_.get(), FIONREAD, &waiting) == 0 && waiting > 0 &&
         ::read(line_reader_.get(), lost.data(), lost.size()) > 0) {
  }
  type_key();
}

void ShellDriver::type_key() {
  ++keys_typed_;
  [[maybe_unused]] const ssize_t typed = ::write(master_, &loop_key, 1);
}

/// An interrupt came before the shell has begun with the pending command: it was meant for that one, or it was idle's.
std::optional<Record> ShellDriver::never_begun() {
  if (pending_ != 0 && interrupted_) {
    Record record{};
    record.number = pending_;
    record.status = 128 + SIGINT;
    return record;
  }
  if (pending_ != 0) {
    send(lines_of_pending_);
  }
  return std::nullopt;
}

std::optional<Record> ShellDriver::loop_begun() {
  at_a_prompt_ = false;
  in_loop_ = true;
  if (std::exchange(keys_typed_, 0) > 1) {
    tcflush(slave_, TCIFLUSH);
  }
  if (modes_) {
    tcsetattr(slave_, TCSANOW, &*modes_);
  }
  return std::exchange(ready_, true) ? never_begun() : std::optional(Record{});
}

Task<bool> ShellDriver::abandoned() {
  if (!sink_) {
    co_return co_await lines_.broken();
  }
  const auto keep = [this](std::string_view bytes) {
    const std::size_t end = bytes.find('\0');
    if (!noise_ended_) {
      noise_.append(bytes.substr(0, std::min(end, max_noise_bytes - noise_.size())));
      noise_ended_ = end != std::string_view::npos;
    }
  };
  while (co_await sink_->readable()) {
    if (!drain(sink_->fd(), max_noise_bytes, keep)) {
      co_return true;
    }
  }
  co_return false;
}

void ShellDriver::close() {
  reports_.close();
  lines_.close();
  if (sink_) {
    sink_->close();
  }
}

std::optional<SyntaxError> ShellDriver::syntax_error(std::string_view output, int status) const {
  std::string text(command_size_ - prefix_size_, '\0');
  const ssize_t n = pread(command_.get(), text.data(), text.size(), static_cast<off_t>(prefix_size_));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return dialect_.find_syntax_error(output, paths_.command, status, text);
}

bool ShellDriver::lines_taken() const {
  int waiting = 0;
  return ioctl(lines_.fd(), FIONREAD, &waiting) == 0 && waiting == 0;
}

void ShellDriver::run(std::uint64_t number, std::string_view text, const Redirections& to) {
  std::string traps;
  struct stat info{};
  if (careful_ && fstat(traps_.get(), &info) == 0 && info.st_size > 0) {
    traps.resize(static_cast<std::size_t>(info.st_size));
    const ssize_t n = pread(traps_.get(), traps.data(), traps.size(), 0);
    traps.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
  const std::string prefix = dialect_.restore_prefix(paths_, flags_, traps, last_status_);
  if (!traps.empty() && prefix.find(paths_.traps) == std::string::npos) {  // else it is read there
    [[maybe_unused]] const int cleared = ftruncate(traps_.get(), 0);
  }
  write_command(prefix, text, dialect_.epilogue(text));
  flags_.clear();
  careful_ = careful_ || dialect_.calls_for_care(text);
  std::string block;
  for (const std::string& line : dialect_.run_lines(paths_, Run{number, to, last_status_, careful_})) {
    block += line;
    if (dialect_.feed() == Feed::packets) {
      send(std::exchange(block, {}));
    }
  }
  pending_ = number;
  interrupted_ = false;
  lines_of_pending_ = std::move(block);
  if (!sink_ || in_loop_) {
    send(lines_of_pending_);
  }
}

std::vector<Record> ShellDriver::take_records() {
  std::vector<Record> records;
  char buffer[8192];
  ssize_t n = 0;
  while ((n = read(reports_.fd(), buffer, sizeof buffer)) > 0) {
    partial_.append(buffer, static_cast<std::size_t>(n));
    std::size_t end = 0;
    while ((end = partial_.find('\0')) != std::string::npos) {
      std::optional<Record> record = read_record(std::string_view(partial_).substr(0, end));
      partial_.erase(0, end + 1);
      if (record) {
        flags_ = record->flags;
        last_status_ = record->status;
        pending_ = record->number == pending_ ? 0 : pending_;
        records.push_back(std::move(*record));
      }
    }
    if (partial_.size() > max_record_bytes) {
      partial_.clear();
    }
    if (static_cast<std::size_t>(n) < sizeof buffer) {
      break;
    }
  }
  return records;
}

std::optional<Record> ShellDriver::read_record(std::string_view text) {
  if (sink_ && text == "P") {
    begin_loop();
    return std::nullopt;
  }
  if (sink_ && text == "L") {
    return loop_begun();
  }
  if (text == "B") {
    return never_begun();
  }
  return parse_record(text);
}

}  // namespace rex::shell
