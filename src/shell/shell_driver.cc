#include "shell/shell_driver.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace rex::shell {
namespace {

// Longer than any path plus the numbers: a record beyond this is not one.
constexpr std::size_t max_record_bytes = 64 * 1024;

Fd memory_file(const char* name) {
  Fd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd) {
    throw os_error("cannot make a memory file", errno);
  }
  return fd;
}

// The shell opens our descriptors by these names: nothing is left behind in any directory, whatever becomes of us.
std::string path_of(const Fd& fd) { return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd.get()); }

Pipe line_pipe(const Dialect& dialect) { return make_pipe(dialect.wants_packets() ? O_DIRECT : 0); }

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
      paths_{path_of(command_), path_of(report_writer_), path_of(traps_)} {}

void ShellDriver::write_command(std::string_view prefix, std::string_view text) {
  std::string content;
  content.reserve(prefix.size() + text.size() + 1);
  content.append(prefix).append(text).append(1, '\n');
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
  write_command("", dialect_.prologue(paths_));
  for (const std::string& line : dialect_.start_lines(paths_)) {
    send(line);
  }
}

void ShellDriver::ask_again(std::uint64_t number) {
  if (lines_taken()) {  // else a report line is still in the pipe
    send(dialect_.report_line(number));
  }
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
    [[maybe_unused]] const int cleared = ftruncate(traps_.get(), 0);
  }
  write_command(dialect_.restore_prefix(flags_, traps, last_status_), text);
  flags_.clear();
  careful_ = careful_ || dialect_.calls_for_care(text);
  std::string block;
  for (const std::string& line : dialect_.run_lines(paths_, Run{number, to, last_status_, careful_})) {
    block += line;
    if (dialect_.wants_packets()) {
      send(std::exchange(block, {}));
    }
  }
  send(block);
}

std::vector<Record> ShellDriver::take_records() {
  std::vector<Record> records;
  char buffer[8192];
  ssize_t n = 0;
  while ((n = read(reports_.fd(), buffer, sizeof buffer)) > 0) {
    partial_.append(buffer, static_cast<std::size_t>(n));
    std::size_t end = 0;
    while ((end = partial_.find('\0')) != std::string::npos) {
      std::optional<Record> record = parse_record(std::string_view(partial_).substr(0, end));
      partial_.erase(0, end + 1);
      if (record) {
        flags_ = record->flags;
        last_status_ = record->status;
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

}  // namespace rex::shell
