// What a terminal shows: rows of cells, drawn by the bytes it is fed. The emulation is libvterm's; this is the only
// header that knows there is one. Must not know journals, sessions, or where bytes come from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shell/pty.h"
#include "shell/screen_input.h"
#include "shell/terminal_answers.h"

namespace rex::shell {

/// Passive. It answers no question and reports no event: fed with the same bytes and sizes it shows the same.
class Screen {
 public:
  /// rows * cols; libvterm takes 80 bytes for each.
  static constexpr std::int64_t kMaxCells = 200'000;

  static bool possible(WindowSize size) { return std::int64_t{size.rows} * size.cols <= kMaxCells; }

  /// Throws LimitExceeded.
  explicit Screen(WindowSize size);
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  /// Line feeds only go down: see TerminalNewlines.
  void feed(std::string_view bytes);
  /// What is shown stays where it is, as far as it fits; colours, regions and other modes of drawing begin anew. Throws
  /// LimitExceeded, and nothing has changed.
  void resize(WindowSize size);
  /// Shows nothing, with the cursor at home; modes stay as they are.
  void wipe();

  [[nodiscard]] WindowSize size() const { return size_; }
  [[nodiscard]] CursorPlace cursor() const;
  [[nodiscard]] bool cursor_visible() const { return cursor_visible_; }
  [[nodiscard]] bool alternate() const { return alternate_; }

  /// A row's text without the blanks at its end. Wide characters stand once; marks stand behind what they mark.
  [[nodiscard]] std::string text(int row) const;
  /// The same with its colours and attributes as SGR sequences, all ended at the end of the row; blanks stay that a
  /// colour or attribute makes visible.
  [[nodiscard]] std::string ansi(int row) const;

  /// Rises when something that can be seen has changed since the last call: a row, the cursor, the size, or what the
  /// caller shows beside (`more`).
  std::uint64_t revision(bool more);
  /// The rows that have changed after `revision`.
  [[nodiscard]] std::vector<int> changed_after(std::uint64_t revision) const;

 private:
  struct Library;

  void begin();
  [[nodiscard]] std::string picture(WindowSize size) const;

  WindowSize size_;
  ScreenInput input_;
  std::unique_ptr<Library> library_;
  bool cursor_visible_ = true;
  bool alternate_ = false;

  struct Row {
    bool touched = true;  // since `revision` was last called
    std::size_t hash = 0;
    std::uint64_t revision = 0;
  };
  std::vector<Row> rows_;
  std::uint64_t revision_ = 0;
  CursorPlace last_cursor_;
  bool last_visible_ = true;
  bool resized_ = true;
};

}  // namespace rex::shell
