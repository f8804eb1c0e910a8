// The lines of one text that match a pattern: bytes in, matches out. Does no I/O and knows no paths.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace rex::files {

inline constexpr std::size_t max_pattern_bytes = 4 << 10;
inline constexpr std::size_t max_pattern_memory = 2 << 20;     // of a compiled pattern and its automaton
inline constexpr std::size_t max_searched_line = 4 << 20;      // `search.lineBytes`
inline constexpr std::size_t max_shown_line = 1 << 10;         // `search.textBytes`
inline constexpr std::int64_t max_context = 20;                // `search.context`
inline constexpr std::int64_t max_result_bytes = 2 << 20;      // `search.resultBytes`: texts and paths of one answer
inline constexpr std::int64_t default_search_results = 1'000;  // `search.maxResults`
inline constexpr std::int64_t max_search_results = 10'000;

/// RE2 syntax, searched for line by line: no match holds a line feed. Immutable.
class LinePattern {
 public:
  /// Throws InvalidParams on member `pattern`.
  explicit LinePattern(const std::string& pattern);
  LinePattern(LinePattern&&) noexcept;
  ~LinePattern();

 private:
  friend class LineSearch;
  std::unique_ptr<re2::RE2> compiled_;
  bool one_by_one_;  // it may ask where the text begins or ends: only a line alone gives the right answer
};

/// A line without its "\n", or the part of it that is shown.
struct ShownLine {
  std::string text;
  std::int64_t cut_before = 0;                // bytes of the line before `text`
  std::optional<std::int64_t> cut_after = 0;  // and after it; absent: not known
};

struct LineMatch {
  std::int64_t number = 0;  // of the line; the first is 1
  std::int64_t offset = 0;  // of the first byte of line.text, in the file, as all offsets
  std::int64_t from = 0;    // the first match in the line
  std::int64_t to = 0;
  ShownLine line;
  std::vector<ShownLine> before;
  std::vector<ShownLine> after;
};

/// What an answer may still hold.
struct SearchBudget {
  std::int64_t matches = 0;
  std::int64_t bytes = 0;
  bool exceeded = false;  // there was one more
};

/// Passive: who has the file reads into room() and says so with take(). A line longer than max_searched_line is
/// searched in pieces of that size, each as a line; what lies across two of them is not found.
class LineSearch {
 public:
  LineSearch(const LinePattern& pattern, std::int64_t context, SearchBudget& budget)
      : pattern_(pattern), context_(static_cast<std::size_t>(context)), budget_(budget) {}

  /// The next bytes are the first of another file. `cost`: what each match takes of the budget besides its text.
  void begin(std::int64_t cost);
  /// Where the next bytes go; never empty.
  std::span<char> room();
  /// `size` bytes were put there; `last`: the file ends with them.
  void take(std::size_t size, bool last);
  /// The budget is exceeded, and the last matches have their context.
  [[nodiscard]] bool done() const { return budget_.exceeded && open_.empty(); }
  /// What was found since begin().
  std::vector<LineMatch> matches() { return std::move(matches_); }

 private:
  struct Open {
    std::size_t match;  // that still wants lines behind it
    std::size_t missing;
    std::size_t next;  // where these begin, in the region
  };

  void process(std::string_view region, bool unfinished);
  void search(std::string_view region, bool unfinished);
  bool add(std::string_view region, std::size_t from, std::size_t to, std::size_t begin, std::size_t end, bool whole);
  [[nodiscard]] std::vector<ShownLine> lines_before(std::string_view region, std::size_t end) const;
  void fill_open(std::string_view region, bool unfinished);

  const LinePattern& pattern_;
  std::size_t context_;
  SearchBudget& budget_;
  std::int64_t cost_ = 0;

  std::vector<char> buffer_;
  std::size_t filled_ = 0;
  std::int64_t base_ = 0;        // offset of the buffer's first byte
  std::int64_t line_begin_ = 0;  // of the line this byte is in
  std::int64_t number_ = 1;      // of that line
  bool inside_ = false;          // that line began before
  std::size_t floor_ = 0;        // where the first line begins that has its beginning in the region
  ShownLine head_;               // of that line, while inside_
  std::deque<ShownLine> kept_;   // the last context_ lines before the region
  std::deque<Open> open_;
  std::vector<LineMatch> matches_;
};

}  // namespace rex::files
