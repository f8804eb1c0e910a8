#include "shell/incarnation.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace rex::shell {
namespace {

Fd children_file(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
  return Fd(open(path, O_RDONLY | O_CLOEXEC));
}

/// Whether the kernel's list of children is exactly `expected` ("" or "PID ").
bool children_are(const Fd& fd, std::string_view expected) {
  char buffer[32];
  const ssize_t n = fd ? pread(fd.get(), buffer, sizeof buffer, 0) : -1;
  return n >= 0 && std::string_view(buffer, static_cast<std::size_t>(n)) == expected;
}

}  // namespace

Task<std::shared_ptr<Incarnation>> Incarnation::start(Executor executor, Nursery& nursery, IncarnationOptions options) {
  std::shared_ptr<Incarnation> self(new Incarnation);
  self->tty_ = options.tty;
  Fd in;
  Fd out;
  Fd err;
  if (options.tty) {
    self->pty_.emplace(options.size, options.cooked);
    self->tty_path_ = self->pty_->path();
    self->out_ = std::make_unique<AsyncFd>(executor, self->pty_->take_master());
  } else {
    Pipe in_pipe = make_pipe();
    Pipe out_pipe = make_pipe();
    Pipe err_pipe = make_pipe();
    self->in_ = std::make_unique<AsyncFd>(executor, std::move(in_pipe.write));
    self->out_ = std::make_unique<AsyncFd>(executor, std::move(out_pipe.read));
    self->err_ = std::make_unique<AsyncFd>(executor, std::move(err_pipe.read));
    in = std::move(in_pipe.read);
    out = std::move(out_pipe.write);
    err = std::move(err_pipe.write);
  }
  if (options.dialect != nullptr) {
    self->driver_ = std::make_unique<ShellDriver>(executor, *options.dialect);
    in = self->driver_->take_line_reader();
    if (options.tty) {
      self->driver_->use_terminal(self->out_->fd(), *self->pty_);
      out = self->driver_->take_sink_writer();
    }
    const std::vector<std::string> own = self->driver_->private_arguments();
    options.launch.argv.insert(options.launch.argv.end(), own.begin(), own.end());
    self->driver_->start(options.reads_user_files);  // a shell with a loop reads the prologue by itself, at once
  }
  self->modes_ = options.tty ? terminal_modes(self->out_->fd()) : std::nullopt;
  options.launch.controlling_tty = options.tty;
  const int terminal = options.tty ? self->pty_->slave() : -1;
  const int in_fd = in ? in.get() : terminal;
  const int out_fd = out ? out.get() : terminal;
  const int err_fd = err ? err.get() : terminal;
  self->program_ = co_await Program::start(executor, nursery, std::move(options.launch), in_fd, out_fd, err_fd);
  self->program_children_ = children_file(self->program_->pid());
  self->guardian_children_ = children_file(self->program_->guardian());
  co_return self;
}

bool Incarnation::drain(Stream stream, std::size_t at_most, const std::function<void(std::string_view)>& sink) {
  AsyncFd* fd = output(stream);
  return fd != nullptr && fd->fd() >= 0 && rex::drain(fd->fd(), at_most, sink);
}

void Incarnation::shut() {
  for (AsyncFd* fd : {in_.get(), out_.get(), err_.get()}) {
    if (fd != nullptr) {
      fd->close();
    }
  }
  if (driver_) {
    driver_->close();
    driver_.reset();
  }
  pty_.reset();
  program_children_.reset();
  guardian_children_.reset();
}

void Incarnation::resize(WindowSize size) {
  if (!tty_) {
    throw Error(Fault::InvalidParams, "the session has no terminal to resize");
  }
  resize_terminal(out_->fd(), size);
}

pid_t Incarnation::foreground() const {
  return (tty_ && out_->fd() >= 0 ? foreground_group(out_->fd()) : std::nullopt).value_or(program_->pid());
}

std::vector<pid_t> Incarnation::others() {
  const bool lives = !program_->ended();
  if (lives && children_are(program_children_, "") &&
      children_are(guardian_children_, std::to_string(program_->pid()) + " ")) {
    return {};
  }
  std::vector<pid_t> all = program_->tree();
  std::erase(all, program_->pid());
  return all;
}

bool Incarnation::restore_modes() {
  const std::optional<termios> now = modes_ ? terminal_modes(out_->fd()) : std::nullopt;
  if (!now || (now->c_iflag == modes_->c_iflag && now->c_oflag == modes_->c_oflag && now->c_lflag == modes_->c_lflag)) {
    return false;
  }
  return tcsetattr(pty_->slave(), TCSANOW, &*modes_) == 0;
}

/// Whether the kernel says that the program is blocked in a read of one.
bool Incarnation::reads_a_pipe() const {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/syscall", program_->pid());
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  char text[64] = {};
  long call = -1;
  unsigned fd = 0;
  if (!file || read(file.get(), text, sizeof text - 1) <= 0 || std::sscanf(text, "%ld 0x%x", &call, &fd) != 2 ||
      call != SYS_read) {
    return false;
  }
  return link_of(("fd/" + std::to_string(fd)).c_str()).value_or("").starts_with("pipe:");
}

bool Incarnation::between_commands() const {
  // While it runs a command its standard input is the terminal or /dev/null; only between commands is it our pipe.
  return driver_ && driver_->dialect().feed() != Feed::loop && foreground() == program_->pid() &&
         link_of("fd/0").value_or("").starts_with("pipe:");
}

bool Incarnation::at_its_lines() const {
  if (!driver_ || !driver_->lines_taken() || foreground() != program_->pid()) {
    return false;
  }
  if (driver_->dialect().feed() == Feed::loop) {
    return is_asleep(program_->pid()) && (driver_->at_a_prompt() || reads_a_pipe());
  }
  return between_commands() && is_asleep(program_->pid());
}

std::optional<std::string> Incarnation::link_of(const char* what) const {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/%d/%s", program_->pid(), what);
  char target[4096 + 16];
  const ssize_t n = readlink(link, target, sizeof target);
  if (n <= 0) {
    return std::nullopt;
  }
  return std::string(target, static_cast<std::size_t>(n));
}

}  // namespace rex::shell
