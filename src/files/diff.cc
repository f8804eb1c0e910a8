#include "files/diff.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/encoding.h"
#include "base/error.h"

namespace rex::files {
namespace {

using LineList = std::vector<std::string_view>;

/// E. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986): the greedy search, keeping every round's
/// furthest points to walk back along. `old_from`.. bound the part that differs.
class Search {
 public:
  Search(const LineList& before, const LineList& after, const Change& part)
      : before_(before),
        after_(after),
        part_(part),
        n_(static_cast<std::int64_t>(part.old_to - part.old_from)),
        m_(static_cast<std::int64_t>(part.new_to - part.new_from)) {}

  /// Which lines of each side have no equal on the other; nullopt when it would be too much work.
  bool run() {
    const std::int64_t most = std::min(max_rounds, n_ + m_);
    std::vector<std::int64_t> furthest(static_cast<std::size_t>(2 * most + 3), 0);
    const auto at = [&furthest, most](std::int64_t diagonal) -> std::int64_t& {
      return furthest[static_cast<std::size_t>(diagonal + most + 1)];
    };
    for (std::int64_t round = 0; round <= most; ++round) {
      for (std::int64_t k = -round; k <= round; k += 2) {
        const bool down = k == -round || (k != round && at(k - 1) < at(k + 1));
        std::int64_t x = down ? at(k + 1) : at(k - 1) + 1;
        while (x < n_ && x - k < m_ && equal(x, x - k)) {
          ++x;
          ++work_;
        }
        at(k) = x;
        if (x >= n_ && x - k >= m_) {
          walk_back(round);
          return true;
        }
      }
      work_ += round;
      if (work_ > max_work) {
        return false;
      }
      // Only diagonals -round .. round have been touched.
      rounds_.emplace_back(&at(-round), &at(round) + 1);
    }
    return false;
  }

  [[nodiscard]] const std::vector<bool>& removed() const { return removed_; }
  [[nodiscard]] const std::vector<bool>& added() const { return added_; }

 private:
  static constexpr std::int64_t max_rounds = 1'000;    // 8 MB of rounds
  static constexpr std::int64_t max_work = 5'000'000;  // comparisons

  [[nodiscard]] bool equal(std::int64_t x, std::int64_t y) const {
    return before_[part_.old_from + static_cast<std::size_t>(x)] ==
           after_[part_.new_from + static_cast<std::size_t>(y)];
  }

  void walk_back(std::int64_t round) {
    removed_.assign(static_cast<std::size_t>(n_), false);
    added_.assign(static_cast<std::size_t>(m_), false);
    std::int64_t x = n_;
    std::int64_t y = m_;
    for (; round > 0; --round) {
      const auto& previous = rounds_[static_cast<std::size_t>(round - 1)];
      const auto at = [&previous, round](std::int64_t k) {
        const std::int64_t index = k + round - 1;
        return index < 0 || index >= static_cast<std::int64_t>(previous.size())
                   ? -1
                   : previous[static_cast<std::size_t>(index)];
      };
      const std::int64_t k = x - y;
      const bool down = k == -round || (k != round && at(k - 1) < at(k + 1));
      x = down ? at(k + 1) : at(k - 1);
      y = x - (down ? k + 1 : k - 1);
      (down ? added_[static_cast<std::size_t>(y)] : removed_[static_cast<std::size_t>(x)]) = true;
    }
  }

  const LineList& before_;
  const LineList& after_;
  const Change part_;
  const std::int64_t n_;
  const std::int64_t m_;
  std::int64_t work_ = 0;
  std::vector<std::vector<std::int64_t>> rounds_;
  std::vector<bool> removed_;
  std::vector<bool> added_;
};

/// Joins lines without an equal into changes; lines that have one go in step.
std::vector<Change> group(const Change& part, const std::vector<bool>& removed, const std::vector<bool>& added) {
  std::vector<Change> changes;
  std::size_t x = 0;
  std::size_t y = 0;
  while (x < removed.size() || y < added.size()) {
    Change change{part.old_from + x, 0, part.new_from + y, 0};
    while (x < removed.size() && removed[x]) {
      ++x;
    }
    while (y < added.size() && added[y]) {
      ++y;
    }
    change.old_to = part.old_from + x;
    change.new_to = part.new_from + y;
    if (change.old_from != change.old_to || change.new_from != change.new_to) {
      changes.push_back(change);
    } else {
      ++x;
      ++y;
    }
  }
  return changes;
}

/// Too much to search. The usual cause is one word replaced on many lines, which keeps their number.
std::vector<Change> compare_coarsely(const LineList& before, const LineList& after, const Change& part) {
  const std::size_t lines = part.old_to - part.old_from;
  if (lines != part.new_to - part.new_from) {
    return {part};
  }
  std::vector<bool> differs(lines);
  for (std::size_t i = 0; i < lines; ++i) {
    differs[i] = before[part.old_from + i] != after[part.new_from + i];
  }
  return group(part, differs, differs);
}

void append_lines(std::string& out, char sign, const LineList& lines, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    out += sign;
    out += lines[i];
    if (!lines[i].ends_with('\n')) {
      out += "\n\\ No newline at end of file\n";
    }
  }
}

/// "12,3" of a hunk's head: a range of one line is only its number, an empty one is named by the line before it.
std::string range_text(std::size_t from, std::size_t to) {
  const std::size_t count = to - from;
  std::string text = std::to_string(count == 0 ? from : from + 1);
  return count == 1 ? text : text + "," + std::to_string(count);
}

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text) {
  LineList lines;
  while (!text.empty()) {
    const void* end = std::memchr(text.data(), '\n', text.size());
    const std::size_t length =
        end == nullptr ? text.size() : static_cast<std::size_t>(static_cast<const char*>(end) - text.data()) + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

std::vector<Change> compare(const LineList& before, const LineList& after) {
  Change part{0, before.size(), 0, after.size()};
  while (part.old_from < part.old_to && part.new_from < part.new_to && before[part.old_from] == after[part.new_from]) {
    ++part.old_from;
    ++part.new_from;
  }
  while (part.old_from < part.old_to && part.new_from < part.new_to &&
         before[part.old_to - 1] == after[part.new_to - 1]) {
    --part.old_to;
    --part.new_to;
  }
  if (part.old_from == part.old_to && part.new_from == part.new_to) {
    return {};
  }
  if (part.old_from == part.old_to || part.new_from == part.new_to) {
    return {part};
  }
  Search search(before, after, part);
  return search.run() ? group(part, search.removed(), search.added()) : compare_coarsely(before, after, part);
}

std::string unified_diff(std::string_view name, const LineList& before, const LineList& after,
                         const std::vector<Change>& changes) {
  constexpr std::size_t context = 3;
  if (changes.empty()) {
    return "";
  }
  const std::string shown_name = printable(name, 4096);
  std::string out = "--- " + shown_name + "\n+++ " + shown_name + "\n";
  for (auto first = changes.begin(); first != changes.end();) {
    auto last = first;  // changes whose contexts touch share a hunk
    while (last + 1 != changes.end() && (last + 1)->old_from - last->old_to <= 2 * context) {
      ++last;
    }
    const std::size_t lead = std::min(context, first->old_from);
    const std::size_t trail = std::min(context, before.size() - last->old_to);
    out += "@@ -" + range_text(first->old_from - lead, last->old_to + trail) + " +" +
           range_text(first->new_from - lead, last->new_to + trail) + " @@\n";
    std::size_t at = first->old_from - lead;
    for (; first <= last; ++first) {
      append_lines(out, ' ', before, at, first->old_from);
      append_lines(out, '-', before, first->old_from, first->old_to);
      append_lines(out, '+', after, first->new_from, first->new_to);
      at = first->old_to;
    }
    append_lines(out, ' ', before, at, at + trail);
  }
  std::optional<std::string> rest;
  if (out.size() > max_diff_bytes) {
    const std::size_t cut = out.rfind('\n', max_diff_bytes - 1) + 1;
    rest = "\\ " + std::to_string(out.size() - cut) + " more bytes of this diff are left out\n";
    out.resize(cut);
  }
  return (is_utf8(out) ? std::move(out) : replace_invalid_utf8(out)) + rest.value_or("");
}

}  // namespace rex::files
