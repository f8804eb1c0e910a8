// A session's terminal as its output makes it: modes, newline marks, the answers it owes, and a screen for whoever
// asks. Must not know ptys, processes, or who asks.
#pragma once

#include <termios.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shell/journal.h"
#include "shell/keys.h"
#include "shell/pty.h"
#include "shell/screen.h"
#include "shell/terminal_marks.h"
#include "shell/terminal_scan.h"

namespace rex::shell {

struct ScreenOptions {
  std::optional<std::uint64_t> since;  // a revision: only the rows that changed after it
  bool ansi = false;
};

struct ScreenView {
  WindowSize size;
  CursorPlace cursor;
  bool cursor_visible;
  std::string title;
  bool alternate;
  std::uint64_t revision;
  std::vector<std::string> lines;
  std::optional<std::vector<int>> changed;  // with `since`: the rows that `lines` are
  Offset next;
  bool complete;
};

/// What a piece of output asks of us.
struct Heard {
  std::string answers;  // to be typed
  bool bell = false;
  bool title = false;
};

/// Passive. The screen is a Cursor in the journal like any other: it is made when it is first needed and draws what
/// came since it was last needed, so that a session nobody looks at pays for a look for ESC and nothing more.
///
/// What has scrolled out of sight is not drawn: libvterm moves the whole screen for each line, 20 µs of them at 50 x
/// 200. After plain text (no moves, no erasing but within the line) the last lines are the screen. Otherwise a call
/// draws at most kMaxBytes and what scrolls in the same time; what that leaves out makes the view not `complete`.
/// While a program paints (the other screen, a scroll region), what it painted long ago still shows: then the screen is
/// drawn along.
class Terminal {
 public:
  static constexpr std::size_t kMaxBytes = 256 * 1024;
  /// Cells moved by scrolling in one call.
  static constexpr std::int64_t kMaxMovedCells = 10'000'000;

  /// `agent`: the pty was opened without output processing. `journal` must outlive it.
  Terminal(Journal& journal, WindowSize size, bool agent);

  /// `bytes` have just been appended to the journal; `modes` are those of their terminal, null where there is none.
  Heard took(std::string_view bytes, const termios* modes);
  void resize(WindowSize size) { marks_.set_size(journal_.end(), size); }
  /// A job has ended, or a program was followed by another: nothing that it set stays in force. Whether it had set
  /// anything.
  bool restore();

  /// Throws InvalidParams `since` for a revision that has not been, LimitExceeded for a screen too large to keep.
  ScreenView view(ScreenOptions options);

  [[nodiscard]] KeyModes key_modes() const { return {scan_.application_cursor(), scan_.application_keypad()}; }
  [[nodiscard]] bool alternate() const { return scan_.alternate(); }
  [[nodiscard]] const std::string& title() const { return scan_.title(); }
  [[nodiscard]] const TerminalMarks& marks() const { return marks_; }

 private:
  [[nodiscard]] bool leaves_newlines_bare(const termios* modes) const;
  void note_newlines(std::string_view bytes, const termios* modes);
  std::string answer(const TerminalQuery& query);
  void follow();
  void draw_until(Offset to);
  struct Start {
    Offset at;
    bool anew;  // on an empty screen of the size of now, which then lacks nothing
  };
  void begin_at(const Start& start);
  Start choose_start(Offset to);
  std::optional<Offset> exact_start(Offset to);
  Offset first_line(Offset from, Offset to);
  std::optional<Offset> last_lines(Offset from, Offset to, std::size_t count);

  Journal& journal_;
  bool agent_;
  TerminalScan scan_;
  TerminalMarks marks_;

  std::unique_ptr<Screen> screen_;
  std::optional<TerminalNewlines> newlines_;
  std::uint64_t sized_by_ = 0;  // serial of the mark whose size the screen has
  Offset drawn_to_ = 0;
  bool complete_ = true;
  std::string shown_title_;
  bool shown_alternate_ = false;
};

}  // namespace rex::shell
