// One line of a terminal of unlimited width: text, a cursor, and what moves and erases within the line.
// Must not know escape sequences or other lines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rex::shell {

/// Passive. Most lines are only appended to (colours, "\r\n"), so text is a plain string until something is written
/// over; only then is it laid out in cells, one per column: a character of two columns and a tab take several.
/// Marks of no width live in the cell of the character before them; a cell holds kCellBytes, more marks are dropped.
class EditLine {
 public:
  /// The widest that can be edited: 1 MiB of cells. The owner empties a line that is `full()`.
  static constexpr std::size_t kMaxColumns = 64 << 10;
  /// How far the cursor can be moved beyond the text. Keeps a `CSI 9999 C` from making a screenful of blanks.
  static constexpr std::size_t kMaxGap = 1024;
  static constexpr std::size_t kCellBytes = 14;

  /// Appends `text`, in which there are no control codes but tabs, to a line that was only appended to.
  void append(std::string_view text);

  /// Writes a character of `width` columns (0 to 2) at the cursor.
  void put(std::string_view character, std::size_t width);
  /// Writes characters of one column and one byte each.
  void put_ascii(std::string_view text);
  void tab();

  void move_to(std::size_t column);
  [[nodiscard]] std::size_t column();

  void erase_right();
  void erase_left();
  void erase_all();
  void erase(std::size_t count);
  void remove(std::size_t count);
  void insert_blanks(std::size_t count);

  [[nodiscard]] bool empty() const { return cells_.empty() && text_.empty(); }
  /// Columns in use; while they have not been counted, the most that they can be.
  [[nodiscard]] std::size_t size() const { return in_cells_ ? cells_.size() : text_.size() + 7 * tabs_; }
  [[nodiscard]] bool full() const { return size() >= kMaxColumns; }

  /// Appends the text to `out`; blanks that lie right of the cursor in a line that was written over are left out.
  void write_to(std::string& out) const;
  void clear();

 private:
  struct Cell {
    std::array<char, kCellBytes> bytes{' '};
    std::uint8_t size = 1;  // 0: the column belongs to the character on the left
  };

  [[nodiscard]] bool appending() const { return !in_cells_ && !at_start_; }
  void lay_out();
  void place(std::string_view character, std::size_t width);
  void break_at(std::size_t column);
  void blank(std::size_t from, std::size_t to);

  std::string text_;       // until laid out
  std::size_t tabs_ = 0;   // in text_
  bool at_start_ = false;  // the cursor stands at the start of text_, not behind it
  bool in_cells_ = false;
  std::vector<Cell> cells_;
  std::size_t cursor_ = 0;  // a column of cells_, or beyond
};

}  // namespace rex::shell
