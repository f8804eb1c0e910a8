// Waiting for text: patterns in RE2 syntax, and a scanner that finds the first match in bytes as they come.
// Must not know journals, sessions or conditions. The only place that knows RE2.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shell/escape.h"
#include "shell/offset.h"

namespace re2 {
class RE2;
}

namespace rex::shell {

/// Immutable once compiled, so one set may serve many scanners. Patterns are unanchored; `^` and `$` match at line
/// boundaries, `$` also at the end of what has been written so far; `.` matches no `\n`. Output that is no UTF-8 does
/// no harm: `.` and classes do not match its invalid bytes, `\C` does.
class PatternSet {
 public:
  static constexpr std::size_t kMaxPatterns = 64;
  static constexpr std::size_t kMaxPatternBytes = 4 << 10;
  static constexpr std::size_t kMaxMemory = 2 << 20;      ///< of one compiled pattern and its automaton
  static constexpr std::size_t kMaxSetMemory = 16 << 20;  ///< of the automaton for all of several patterns

  /// Throws InvalidParams that names `member[i]`, or `member` itself when there are too many.
  PatternSet(const std::vector<std::string>& patterns, std::string_view member);

  /// A single pattern; the fault names `member` as it is.
  static std::shared_ptr<const PatternSet> one(const std::string& pattern, std::string_view member);

  PatternSet(PatternSet&&) noexcept;
  ~PatternSet();

  [[nodiscard]] std::size_t size() const { return patterns_.size(); }

 private:
  friend class Scanner;
  PatternSet();
  struct Any;  // hides RE2::Set, which cannot be declared ahead
  struct Found {
    std::size_t index;
    std::size_t from;
    std::size_t to;
  };
  void add(const std::string& pattern, const std::string& member);
  [[nodiscard]] std::optional<Found> find(std::string_view text, std::size_t from) const;

  std::vector<std::unique_ptr<re2::RE2>> patterns_;
  std::unique_ptr<Any> any_;  // of several patterns: whether there is a match at all
  bool within_lines_ = true;  // no pattern can match across a line feed
};

struct Match {
  std::size_t index;  ///< of the pattern
  std::string text;   ///< what matched, without escape sequences; not necessarily UTF-8
  Offset from;        ///< the raw bytes it stands for
  Offset to;
};

/// Passive; a cursor. Of the matches that can be seen it yields the one that starts first, then the lowest index, as
/// soon as it can be seen: a greedy pattern takes what is there. A match may span kWindow bytes of text; one that is
/// longer may be missed.
///
/// Cost stays linear in what is fed: at most the last kRecent bytes are searched again, and less by patterns that
/// cannot match across a line feed. A match that began even earlier is found by `settle()`, or after at most kWindow
/// more bytes. Where the scanner starts counts as the start of a line.
class Scanner {
 public:
  static constexpr std::size_t kWindow = 64 << 10;
  static constexpr std::size_t kRecent = 4 << 10;

  Scanner(std::shared_ptr<const PatternSet> patterns, Offset from, bool strip_ansi = true);

  /// Bytes at `offset`. They follow those fed before; where the journal has lost some (`offset` above `next()`), the
  /// text before is forgotten: nothing matches across a gap. Bytes fed already are skipped.
  /// After a match, what lies behind it stays to be searched: call `settle()` until it yields nothing, or feed on.
  std::optional<Match> feed(std::string_view bytes, Offset offset);

  /// Searches all of the window; to be called when the program is silent for the moment (the pump met EAGAIN).
  std::optional<Match> settle();

  /// The offset of the next byte to be fed.
  [[nodiscard]] Offset next() const { return next_; }

 private:
  struct Run {
    std::uint64_t at;  // position in the whole text from which on raw offsets are consecutive
    Offset raw;
  };

  void add(std::string_view bytes);
  void add_text(std::string_view bytes);
  [[nodiscard]] std::size_t recent() const;
  std::optional<Match> search(std::size_t from);
  [[nodiscard]] Offset raw_of(std::size_t at) const;
  void trim();

  std::shared_ptr<const PatternSet> patterns_;
  bool strip_ansi_;
  Offset next_;
  EscapeParser parser_;
  std::string text_;             // the window, without escape sequences; at most three times kWindow
  std::uint64_t forgotten_ = 0;  // text before it
  std::deque<Run> runs_;
  std::size_t begin_ = 0;      // matches start here or later: before it lies context, or the last match
  std::size_t searched_ = 0;   // all before was there at the last search
  std::size_t line_ = 0;       // the unfinished line at that time starts here
  std::size_t unsettled_ = 0;  // bytes that came since the whole window was last searched
  bool due_ = true;            // there is something that was not searched
};

}  // namespace rex::shell
