// Line differences of two texts, for people (a unified diff) and for undoing. Bytes only; knows nothing of files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rex::files {

/// `text` cut after each "\n"; a last line without one is a line. An empty text has none. Views into `text`.
std::vector<std::string_view> split_lines(std::string_view text);

/// Lines [old_from, old_to) of one text stand where [new_from, new_to) stand in the other. Counted from 0.
struct Change {
  std::size_t old_from, old_to;
  std::size_t new_from, new_to;
};

/// What turns one list of lines into the other, in order, with equal lines in between. As few lines as possible
/// within a fixed amount of work; beyond it correct but coarser.
std::vector<Change> compare(const std::vector<std::string_view>& before, const std::vector<std::string_view>& after);

inline constexpr std::size_t max_diff_bytes = 1 << 20;

/// The changes as a unified diff with 3 lines of context; empty when there are none. UTF-8, whatever the texts are:
/// other bytes show as U+FFFD. Beyond max_diff_bytes it ends with a line that says how much is missing.
std::string unified_diff(std::string_view name, const std::vector<std::string_view>& before,
                         const std::vector<std::string_view>& after, const std::vector<Change>& changes);

}  // namespace rex::files
