// A pseudo-terminal pair: opening, modes, size, foreground group. Knows no sessions and no shells.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <optional>
#include <string>

#include "base/fd.h"

namespace rex::shell {

struct WindowSize {
  int rows;
  int cols;

  bool operator==(const WindowSize&) const = default;
};

class Pty {
 public:
  /// `cooked`: output processing (LF to CR LF) as a person's terminal has it; agents' sessions go without, so that
  /// output is the program's bytes (and ten times faster). Echo is on in both: a program that turns it off asks for
  /// a secret, and that must stay visible. Throws OsError; LimitExceeded `pty` when the system has none left.
  Pty(WindowSize size, bool cooked);

  /// The master's descriptor, non-blocking. Handed to the loop by `take_master`, after which it is not owned here.
  [[nodiscard]] Fd take_master() { return std::move(master_); }
  [[nodiscard]] int slave() const { return slave_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Fd master_;
  // Kept open: with no slave open at all (`exec >&- 2>&-`) reads of the master would fail instead of waiting.
  Fd slave_;
  std::string path_;
};

/// SIGWINCH reaches the foreground group when the size changed.
void resize_terminal(int master, WindowSize size);

/// The terminal's modes, seen from the master.
std::optional<termios> terminal_modes(int master);

/// The terminal's foreground process group, if any.
std::optional<pid_t> foreground_group(int master);

}  // namespace rex::shell
