// One life of a session's program: the terminal or pipes it runs on, its process tree, and its driver when it is a
// shell that we manage. A session whose shell died gets a new one. Passive: the Session pumps it; knows no jobs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "shell/program.h"
#include "shell/pty.h"
#include "shell/shell_driver.h"

namespace rex::shell {

enum class Stream { out, err };

/// How an incarnation is started.
struct IncarnationOptions {
  Launch launch;
  const Dialect* dialect = nullptr;  // null: a program we only watch
  bool reads_user_files = false;     // before our first line
  bool tty = true;
  bool cooked = false;
  WindowSize size{50, 200};
};

class Incarnation {
 public:
  /// Starts the program. Throws StartFailed, OsError, LimitExceeded.
  static Task<std::shared_ptr<Incarnation>> start(Executor executor, Nursery& nursery, IncarnationOptions options);

  Program& program() { return *program_; }
  [[nodiscard]] bool tty() const { return tty_; }
  /// Null when the program is not a shell of ours.
  ShellDriver* driver() { return driver_ ? driver_.get() : nullptr; }
  [[nodiscard]] const std::string& tty_path() const { return tty_path_; }
  /// Our own descriptor of the terminal's other side; -1 without one.
  [[nodiscard]] int slave() const { return pty_ ? pty_->slave() : -1; }

  /// Where output of a stream comes from; with a terminal there is only `out`. Null when that stream has ended.
  AsyncFd* output(Stream stream) { return stream == Stream::out ? out_.get() : err_.get(); }
  /// Where input goes. Null when it was closed.
  AsyncFd* input() {
    AsyncFd* fd = tty_ ? out_.get() : in_.get();
    return fd != nullptr && fd->fd() >= 0 ? fd : nullptr;
  }
  void close_input() { in_->close(); }

  /// Reads what is there into `sink` until nothing is left or `at_most` bytes came. A terminal delivers all that was
  /// written before on the reader's own time (n_tty), so after a shell's report "until nothing is left" is exact.
  /// False once the stream has ended.
  bool drain(Stream stream, std::size_t at_most, const std::function<void(std::string_view)>& sink);

  void resize(WindowSize size);

  /// The group that has the terminal; without one, the program's own.
  [[nodiscard]] pid_t foreground() const;

  /// All of the tree but the program itself. Almost free while there is nobody.
  [[nodiscard]] std::vector<pid_t> others();

  /// Where the program is now, as the kernel knows it; nullopt when it is gone.
  [[nodiscard]] std::optional<std::string> kernel_cwd() const { return link_of("cwd"); }

  /// The file of the program that runs there now, links followed; nullopt when it is gone or another user's.
  [[nodiscard]] std::optional<std::string> executable() const { return link_of("exe"); }

  /// Ends every pump and lets go of every descriptor. The process tree lives until this object is gone, or its end was
  /// asked for.
  void shut();

  /// Gives the terminal the modes back that it began with; whether it had others.
  bool restore_modes();

  /// Whether our shell is behind a command and not yet in the next one: it reports, or reads its lines. False where
  /// that cannot be told.
  [[nodiscard]] bool between_commands() const;

  /// Whether our shell is back at its line pipe with nothing left to read there.
  [[nodiscard]] bool at_its_lines() const;

  bool replaced = false;  // another program runs where our shell was
  bool in_doubt = false;  // it may be so, or the shell is dying

 private:
  Incarnation() = default;
  [[nodiscard]] std::optional<std::string> link_of(const char* what) const;
  [[nodiscard]] bool reads_a_pipe() const;

  std::shared_ptr<Program> program_;
  std::unique_ptr<ShellDriver> driver_;
  bool tty_ = true;
  std::string tty_path_;
  std::optional<Pty> pty_;
  std::optional<termios> modes_;  // the terminal's, as it began
  std::unique_ptr<AsyncFd> in_;
  std::unique_ptr<AsyncFd> out_;
  std::unique_ptr<AsyncFd> err_;
  Fd program_children_;
  Fd guardian_children_;
};

}  // namespace rex::shell
