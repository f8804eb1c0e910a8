// What happened to a terminal beside the bytes that came from it, by their offset: its newline mode, its size, and when
// we set it right after a job. Must not know journals, escape sequences or termios.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "shell/offset.h"
#include "shell/pty.h"

namespace rex::shell {

/// From byte `at` on.
struct TerminalMark {
  std::uint64_t serial;  ///< rises by one or more from mark to mark
  Offset at;
  bool bare;  ///< line feeds came without the carriage return that their writer counted on
  WindowSize size;
  std::string restore;  ///< what a terminal is told before that byte, so that nothing of an ended job stays in force
};

/// Passive and bounded: of more than kMaxMarks the oldest are forgotten, and bytes before them count as the oldest mark
/// says.
class TerminalMarks {
 public:
  static constexpr std::size_t kMaxMarks = 512;

  TerminalMarks(Offset at, bool bare, WindowSize size);

  // Each at the last mark's offset or later.
  void set_bare(Offset at, bool bare);
  void set_size(Offset at, WindowSize size);
  void restore(Offset at, std::string bytes);

  [[nodiscard]] const TerminalMark& newest() const { return marks_.back(); }
  /// The one in force for the byte at `offset`.
  [[nodiscard]] const TerminalMark& at(Offset offset) const;
  /// The first one younger than `serial`, or null.
  [[nodiscard]] const TerminalMark* after(std::uint64_t serial) const;
  [[nodiscard]] std::size_t count() const { return marks_.size(); }

 private:
  void add(TerminalMark mark);

  std::deque<TerminalMark> marks_;  // never empty
};

/// Turns a session's bytes into what a terminal in its usual mode shows right: a carriage return before each line feed
/// that came without, and the restoring of modes between jobs. Passive; a Cursor of its own, so it may start anywhere.
class TerminalNewlines {
 public:
  /// `marks` must outlive it.
  TerminalNewlines(const TerminalMarks& marks, Offset from);

  /// Appends to `out` what stands for `bytes`, those of the journal from `next()` on. May be called with none.
  void take(std::string_view bytes, std::string& out);

  /// Goes on at a later byte: what lay between is lost.
  void skip_to(Offset offset);

  [[nodiscard]] Offset next() const { return next_; }

 private:
  void take_under_one_mark(std::string_view bytes, std::string& out);

  const TerminalMarks& marks_;
  Offset next_;
  std::uint64_t serial_;
  bool bare_;
  bool after_return_ = false;
};

}  // namespace rex::shell
