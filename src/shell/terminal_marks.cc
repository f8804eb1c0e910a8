#include "shell/terminal_marks.h"

#include <algorithm>
#include <utility>

namespace rex::shell {

TerminalMarks::TerminalMarks(Offset at, bool bare, WindowSize size) { marks_.push_back({0, at, bare, size, {}}); }

void TerminalMarks::set_bare(Offset at, bool bare) {
  if (newest().bare != bare) {
    add({0, at, bare, newest().size, {}});
  }
}

void TerminalMarks::set_size(Offset at, WindowSize size) {
  if (newest().size != size) {
    add({0, at, newest().bare, size, {}});
  }
}

void TerminalMarks::restore(Offset at, std::string bytes) {
  add({0, at, newest().bare, newest().size, std::move(bytes)});
}

void TerminalMarks::add(TerminalMark mark) {
  mark.serial = newest().serial + 1;
  if (newest().at == mark.at && newest().restore.empty()) {  // no byte came under it: a window dragged by its corner
    marks_.pop_back();
  }
  marks_.push_back(std::move(mark));
  if (marks_.size() > kMaxMarks) {
    marks_.pop_front();
  }
}

const TerminalMark& TerminalMarks::at(Offset offset) const {
  const auto behind = std::upper_bound(marks_.begin(), marks_.end(), offset,
                                       [](Offset value, const TerminalMark& mark) { return value < mark.at; });
  return behind == marks_.begin() ? marks_.front() : *std::prev(behind);
}

const TerminalMark* TerminalMarks::after(std::uint64_t serial) const {
  const auto first =
      std::upper_bound(marks_.begin(), marks_.end(), serial,
                       [](std::uint64_t value, const TerminalMark& mark) { return value < mark.serial; });
  return first == marks_.end() ? nullptr : &*first;
}

TerminalNewlines::TerminalNewlines(const TerminalMarks& marks, Offset from)
    : marks_(marks), next_(from), serial_(marks.at(from).serial), bare_(marks.at(from).bare) {}

void TerminalNewlines::take(std::string_view bytes, std::string& out) {
  while (true) {
    const TerminalMark* const mark = marks_.after(serial_);
    const bool reached = mark != nullptr && mark->at <= next_ + bytes.size();
    const std::size_t size = !reached ? bytes.size() : mark->at > next_ ? mark->at - next_ : 0;
    take_under_one_mark(bytes.substr(0, size), out);
    bytes.remove_prefix(size);
    if (!reached) {
      return;
    }
    out += mark->restore;
    bare_ = mark->bare;
    serial_ = mark->serial;
  }
}

void TerminalNewlines::take_under_one_mark(std::string_view bytes, std::string& out) {
  next_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t line = bare_ ? bytes.find('\n') : std::string_view::npos;
    const std::string_view text = bytes.substr(0, line);
    out += text;
    after_return_ = text.empty() ? after_return_ : text.back() == '\r';
    if (line == std::string_view::npos) {
      return;
    }
    out += after_return_ ? "\n" : "\r\n";
    after_return_ = false;
    bytes.remove_prefix(line + 1);
  }
}

void TerminalNewlines::skip_to(Offset offset) {
  next_ = offset;
  serial_ = marks_.at(offset).serial;
  bare_ = marks_.at(offset).bare;
  after_return_ = false;
}

}  // namespace rex::shell
