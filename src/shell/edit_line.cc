// The two forms of the line: a string that is appended to, and cells. Must not convert before something is written
// over: laying out costs sixteen bytes a character.
#include "shell/edit_line.h"

#include <algorithm>

#include "base/encoding.h"
#include "shell/char_width.h"

namespace rex::shell {
namespace {

constexpr std::size_t kTab = 8;

}  // namespace

void EditLine::append(std::string_view text) {
  text_ += text;
  tabs_ += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\t'));
}

void EditLine::put(std::string_view character, std::size_t width) {
  if (appending()) {
    text_ += character;
    return;
  }
  lay_out();
  place(character, width);
}

void EditLine::put_ascii(std::string_view text) {
  if (appending()) {
    text_ += text;
    return;
  }
  lay_out();
  for (const char c : text) {
    // Over a character of one column nothing can be torn: most of a progress bar goes this way.
    if (cursor_ + 1 < cells_.size() && cells_[cursor_].size != 0 && cells_[cursor_ + 1].size != 0) {
      cells_[cursor_].bytes[0] = c;
      cells_[cursor_].size = 1;
      ++cursor_;
    } else {
      place({&c, 1}, 1);
    }
  }
}

void EditLine::tab() {
  if (appending()) {
    text_ += '\t';
    ++tabs_;
    return;
  }
  lay_out();
  const std::size_t width = kTab - cursor_ % kTab;
  if (cursor_ < cells_.size()) {
    move_to(cursor_ + width);
  } else {
    place("\t", width);
  }
}

void EditLine::move_to(std::size_t column) {
  if (!in_cells_) {
    if (column == 0) {
      at_start_ = !text_.empty();
      return;
    }
    lay_out();
  }
  cursor_ = std::min(column, std::max(cells_.size(), kMaxGap));
  if (cursor_ == 0 && cells_.empty()) {
    clear();
  }
}

std::size_t EditLine::column() {
  if (!in_cells_) {
    if (at_start_ || text_.empty()) {
      return 0;
    }
    lay_out();
  }
  return cursor_;
}

void EditLine::erase_right() {
  if (!in_cells_) {
    if (at_start_) {
      clear();
    }
    return;
  }
  if (cursor_ < cells_.size()) {
    break_at(cursor_);
    cells_.resize(cursor_);
  }
  if (cursor_ == 0) {
    clear();
  }
}

void EditLine::erase_left() {
  if (column() == 0 && empty()) {
    return;
  }
  lay_out();
  blank(0, cursor_ + 1);
}

void EditLine::erase_all() {
  const std::size_t column_now = column();
  clear();
  move_to(column_now);
}

void EditLine::erase(std::size_t count) {
  lay_out();
  blank(cursor_, cursor_ + count);
}

void EditLine::remove(std::size_t count) {
  lay_out();
  if (cursor_ >= cells_.size()) {
    return;
  }
  const std::size_t end = std::min(cursor_ + count, cells_.size());
  break_at(cursor_);
  break_at(end);
  cells_.erase(cells_.begin() + static_cast<std::ptrdiff_t>(cursor_),
               cells_.begin() + static_cast<std::ptrdiff_t>(end));
}

void EditLine::insert_blanks(std::size_t count) {
  lay_out();
  if (cursor_ >= cells_.size() || cells_.size() + count >= kMaxColumns) {
    return;
  }
  break_at(cursor_);
  cells_.insert(cells_.begin() + static_cast<std::ptrdiff_t>(cursor_), count, Cell{});
}

void EditLine::write_to(std::string& out) const {
  if (!in_cells_) {
    out += text_;
    return;
  }
  std::size_t end = cells_.size();
  while (end > cursor_ && cells_[end - 1].size == 1 && cells_[end - 1].bytes[0] == ' ') {
    --end;
  }
  for (std::size_t i = 0; i < end; ++i) {
    out.append(cells_[i].bytes.data(), cells_[i].size);
  }
}

void EditLine::clear() {
  text_.clear();
  tabs_ = 0;
  at_start_ = false;
  in_cells_ = false;
  cells_.clear();
  cursor_ = 0;
}

void EditLine::lay_out() {
  if (in_cells_) {
    return;
  }
  in_cells_ = true;
  cursor_ = 0;
  cells_.reserve(text_.size());
  for (std::string_view rest = text_; !rest.empty();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_sequence(rest));
    const std::string_view character = rest.substr(0, length);
    place(character, character == "\t" ? kTab - cursor_ % kTab : char_width(decode_utf8(character)));
    rest.remove_prefix(length);
  }
  if (at_start_) {
    cursor_ = 0;
  }
  text_.clear();
  at_start_ = false;
}

void EditLine::place(std::string_view character, std::size_t width) {
  if (width == 0) {
    std::size_t at = cursor_ <= cells_.size() ? cursor_ : 0;
    while (at > 0 && cells_[at - 1].size == 0) {
      --at;
    }
    if (at > 0 && cells_[at - 1].size + character.size() <= kCellBytes) {
      Cell& cell = cells_[at - 1];
      std::copy(character.begin(), character.end(), cell.bytes.begin() + cell.size);
      cell.size = static_cast<std::uint8_t>(cell.size + character.size());
    }
    return;
  }
  const std::size_t end = cursor_ + width;
  if (cursor_ < cells_.size()) {
    break_at(cursor_);
    break_at(end);
  }
  if (end > cells_.size()) {
    cells_.resize(end);
  }
  Cell& cell = cells_[cursor_];
  std::copy(character.begin(), character.end(), cell.bytes.begin());
  cell.size = static_cast<std::uint8_t>(character.size());
  for (std::size_t i = cursor_ + 1; i < end; ++i) {
    cells_[i].size = 0;
  }
  cursor_ = end;
}

/// If a character of several columns lies across the left edge of `column`, it is torn: blanks stand for it.
void EditLine::break_at(std::size_t column) {
  if (column >= cells_.size() || cells_[column].size != 0) {
    return;
  }
  std::size_t from = column;
  while (cells_[from].size == 0) {
    --from;
  }
  std::size_t to = column;
  while (to < cells_.size() && cells_[to].size == 0) {
    ++to;
  }
  std::fill(cells_.begin() + static_cast<std::ptrdiff_t>(from), cells_.begin() + static_cast<std::ptrdiff_t>(to),
            Cell{});
}

void EditLine::blank(std::size_t from, std::size_t to) {
  to = std::min(to, cells_.size());
  if (from < to) {
    break_at(from);
    break_at(to);
    std::fill(cells_.begin() + static_cast<std::ptrdiff_t>(from), cells_.begin() + static_cast<std::ptrdiff_t>(to),
              Cell{});
  }
}

}  // namespace rex::shell
