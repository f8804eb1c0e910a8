// What control codes do to the line and to the rows of a block, and when these are handed over. Must not look at bytes.
#include <algorithm>

#include "shell/clean_view.h"

namespace rex::shell {

void CleanView::control(unsigned char code, const Sink& sink) {
  switch (code) {
    case '\n': line_feed(sink); break;
    case '\r': line().move_to(0); break;
    case '\t': line().tab(); break;
    case '\b': line().move_to(std::max<std::size_t>(line().column(), 1) - 1); break;
    case EscapeParser::kEscape: parser_.open(code); break;
    default: break;
  }
}

void CleanView::act(const Escape& sequence, const Sink& sink) {
  if (sequence.kind == Escape::Kind::csi && sequence.prefix == '?' &&
      (sequence.final == 'h' || sequence.final == 'l')) {
    const auto* end = sequence.parameters.begin() + sequence.count;
    const bool switches = std::any_of(sequence.parameters.begin(), end,
                                      [](std::uint16_t mode) { return mode == 47 || mode == 1047 || mode == 1049; });
    alternate_ = switches ? sequence.final == 'h' : alternate_;
    return;
  }
  if (sequence.prefix != 0 || sequence.intermediate != 0 || sequence.kind == Escape::Kind::string) {
    return;
  }
  if (sequence.kind == Escape::Kind::escape && sequence.final == 'c') {  // a reset
    alternate_ = false;
    leave(0, sink);
  } else if (!alternate_) {
    sequence.kind == Escape::Kind::csi ? act_csi(sequence, sink) : act_escape(sequence.final, sink);
  }
}

void CleanView::act_escape(char final, const Sink& sink) {
  switch (final) {
    case 'D': return down(1, sink);
    case 'E': return line_feed(sink);
    case 'M': return up(1);
    case '7': saved_ = {.row = row_, .column = line().column(), .gone = false}; break;
    case '8': return restore_place(sink);
    default: break;
  }
}

void CleanView::act_csi(const Escape& csi, const Sink& sink) {
  const std::size_t count = csi.number(0, 1);
  switch (csi.final) {
    case 'A': return up(count);
    case 'B':
    case 'e': return down(count, sink);
    case 'E': down(count, sink); return line().move_to(0);
    case 'F': up(count); return line().move_to(0);
    case 'C':
    case 'a': return line().move_to(line().column() + count);
    case 'D': return line().move_to(std::max(line().column(), count) - count);
    case 'G':
    case '`': return line().move_to(count - 1);
    case 'H':
    case 'f': return leave(csi.number(1, 1) - 1, sink);
    case 'd': return leave(line().column(), sink);
    case 'J': return erase_in_display(csi.number(0, 0), sink);
    case 'K': return erase_in_line(csi.number(0, 0));
    case 'P': return line().remove(count);
    case 'X': return line().erase(count);
    case '@': return line().insert_blanks(count);
    case 's': return act_escape('7', sink);
    case 'u': return act_escape('8', sink);
    default: break;
  }
}

void CleanView::line_feed(const Sink& sink) {
  if (row_ + 1 < rows_.size()) {
    ++row_;
    line().move_to(0);
  } else if (!block_ || block_is_full()) {
    hand_over_rows(Ending::line_feed, sink);
  } else {
    add_row(true);
  }
}

void CleanView::up(std::size_t count) {
  const std::size_t column = line().column();
  block_ = true;
  if (count > row_) {
    const std::size_t more = std::min(count - row_, kMaxRows - rows_.size());
    rows_.insert(rows_.begin(), more, Row{});
    row_ += more;
    saved_.row += more;
  }
  row_ -= std::min(count, row_);
  line().move_to(column);
}

void CleanView::down(std::size_t count, const Sink& sink) {
  const std::size_t column = line().column();
  if (row_ + 1 < rows_.size()) {
    row_ = std::min(row_ + count, rows_.size() - 1);
  } else if (block_is_full()) {
    leave(column, sink);
  } else {
    block_ = true;
    add_row(false);
  }
  line().move_to(column);
}

void CleanView::add_row(bool begun) {
  rows_.emplace_back().begun = begun;
  row_ = rows_.size() - 1;
}

bool CleanView::block_is_full() const {
  std::size_t columns = 0;
  for (const Row& row : rows_) {
    columns += row.line.size();
  }
  return rows_.size() >= kMaxRows || columns >= EditLine::kMaxColumns;
}

/// Goes to a row of which nothing is known: what was being written stands as it is.
void CleanView::leave(std::size_t column, const Sink& sink) {
  hand_over_rows(Ending::left, sink);
  edited_ = true;
  line().move_to(column);
}

void CleanView::erase_in_line(std::size_t part) {
  switch (part) {
    case 0: return line().erase_right();
    case 1: return line().erase_left();
    default: return line().erase_all();
  }
}

void CleanView::erase_in_display(std::size_t part, const Sink& sink) {
  if (part == 0) {
    line().erase_right();
    rows_.resize(row_ + 1);
  } else if (part == 1) {
    std::fill(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(row_), Row{});
    line().erase_left();
  } else {
    leave(line().column(), sink);
  }
}

void CleanView::restore_place(const Sink& sink) {
  if (saved_.gone) {
    return leave(saved_.column, sink);
  }
  row_ = std::min(saved_.row, rows_.size() - 1);
  line().move_to(saved_.column);
}

void CleanView::hand_over_full_line(const Sink& sink) {
  if (block_) {
    return leave(0, sink);
  }
  std::string text;
  line().write_to(text);
  line().clear();
  saved_.gone = true;
  const Offset from = piece_from_;
  piece_from_ = at_;
  sink({text, from, at_, false});
}

void CleanView::hand_over_rows(Ending ending, const Sink& sink) {
  std::string text;
  for (const Row& row : rows_) {
    const bool last = &row == &rows_.back();
    const std::size_t before = text.size();
    row.line.write_to(text);
    const bool stands = last ? ending == Ending::line_feed : row.begun;
    if ((stands || text.size() > before) && (!last || ending != Ending::end_of_bytes)) {
      text += '\n';
    }
  }
  rows_.resize(1);
  rows_.front().begun = false;
  rows_.front().line.clear();
  row_ = 0;
  saved_.gone = true;
  edited_ = false;
  block_ = false;
  if (!text.empty() || (ending == Ending::end_of_bytes && piece_from_ != at_)) {
    const Offset from = piece_from_;
    piece_from_ = at_;
    sink({text, from, at_, false});
  }
}

}  // namespace rex::shell
