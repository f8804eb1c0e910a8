#include "files/line_search.h"

#include <re2/re2.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace rex::files {
namespace {

constexpr std::size_t first_read = 64 << 10;  // most files are smaller
constexpr std::size_t next_read = 256 << 10;
constexpr std::size_t lead = 256;  // shown of a long line before its match

bool inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::int64_t as_offset(std::size_t size) { return static_cast<std::int64_t>(size); }

/// At most max_shown_line bytes of `line`, with the place `to` among them if there is one, cut between characters.
ShownLine shown(std::string_view line, std::size_t from = 0, std::size_t to = 0) {
  ShownLine out;
  std::size_t begin = to <= max_shown_line ? 0 : from - std::min(from, lead);
  while (begin > 0 && begin < from && inside_character(line[begin])) {
    ++begin;
  }
  std::size_t end = std::min(line.size(), begin + max_shown_line);
  for (int i = 0; i < 3 && end < line.size() && end > begin && inside_character(line[end]); ++i) {
    --end;
  }
  out.text = line.substr(begin, end - begin);
  out.cut_before = as_offset(begin);
  out.cut_after = as_offset(line.size() - end);
  return out;
}

/// Whether it may ask where the text begins or ends by other means than `^` and `$`. In doubt it is slower, not wrong.
/// (`\C` is here because it alone matches a line feed.)
bool needs_a_line_alone(std::string_view pattern) {
  for (std::size_t at = 0; (at = pattern.find_first_of("\\(", at)) != pattern.npos; ++at) {
    if (pattern[at] == '(') {
      const std::size_t flags = pattern.find_first_of(":)", at);
      if (pattern.substr(at, 2) == "(?" && pattern.substr(at, flags - at).find('-') != pattern.npos) {
        return true;
      }
    } else {
      ++at;
      if (at < pattern.size() && std::string_view("AzCQ").find(pattern[at]) != std::string_view::npos) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

LinePattern::LinePattern(LinePattern&&) noexcept = default;
LinePattern::~LinePattern() = default;

LinePattern::LinePattern(const std::string& pattern) : one_by_one_(needs_a_line_alone(pattern)) {
  if (pattern.size() > max_pattern_bytes) {
    throw invalid_params("pattern", "longer than " + std::to_string(max_pattern_bytes) + " bytes");
  }
  RE2::Options options;
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_never_nl(true);
  options.set_max_mem(max_pattern_memory);
  compiled_ = std::make_unique<RE2>("(?m)" + pattern, options);
  if (!compiled_->ok()) {
    const RE2 as_written(pattern, options);  // whose message does not show our prefix
    throw invalid_params("pattern", printable(as_written.ok() ? compiled_->error() : as_written.error()));
  }
}

void LineSearch::begin(std::int64_t cost) {
  cost_ = cost;
  filled_ = 0;
  base_ = line_begin_ = 0;
  number_ = 1;
  inside_ = false;
  kept_.clear();
  open_.clear();
  matches_.clear();
}

std::span<char> LineSearch::room() {
  if (filled_ == buffer_.size()) {
    const std::size_t larger = buffer_.empty() ? first_read : std::max(next_read, buffer_.size() * 2);
    buffer_.resize(std::min(larger, max_searched_line));
  }
  return std::span(buffer_).subspan(filled_);
}

void LineSearch::take(std::size_t size, bool last) {
  const char* added = buffer_.data() + filled_;
  filled_ += size;
  std::size_t end = filled_;
  bool unfinished = false;
  if (!last) {
    const void* feed = size > 0 ? ::memrchr(added, '\n', size) : nullptr;
    if (feed == nullptr && filled_ < max_searched_line) {
      return;
    }
    unfinished = feed == nullptr;
    end = unfinished ? filled_ : static_cast<std::size_t>(static_cast<const char*>(feed) - buffer_.data()) + 1;
  }
  process(std::string_view(buffer_.data(), end), unfinished);
  std::copy(buffer_.data() + end, buffer_.data() + filled_, buffer_.data());
  filled_ -= end;
  base_ += as_offset(end);
  if (!unfinished) {
    line_begin_ = base_;
  }
  if (last) {
    open_.clear();
  }
}

/// `region`: lines with their ends, but for the first one's beginning (inside_) and the last one's end.
void LineSearch::process(std::string_view region, bool unfinished) {
  if (region.empty()) {
    return;
  }
  floor_ = 0;
  if (inside_) {
    const std::size_t feed = region.find('\n');
    floor_ = feed == region.npos ? region.size() : feed + 1;
  }
  const std::int64_t first = number_;
  if (!budget_.exceeded) {
    search(region, unfinished);
  }
  fill_open(region, unfinished);
  if (number_ == first) {
    number_ += std::count(region.begin(), region.end(), '\n');
  }
  if (context_ > 0) {
    const std::size_t last = unfinished ? region.rfind('\n') + 1 : region.size();
    const std::vector<ShownLine> kept = lines_before(region, last);
    kept_.assign(kept.begin(), kept.end());
  }
  if (unfinished && (!inside_ || floor_ < region.size())) {
    const std::size_t begin = region.rfind('\n') + 1;
    head_ = shown(region.substr(begin));
    head_.cut_after.reset();
    line_begin_ = base_ + as_offset(begin);
  }
  inside_ = unfinished;
}

void LineSearch::search(std::string_view region, bool unfinished) {
  const std::string_view text = region.substr(0, region.size() - (region.ends_with('\n') ? 1 : 0));
  std::size_t counted = 0;
  const std::int64_t first = number_;
  const auto count_to = [&](std::size_t place) {
    number_ += std::count(region.begin() + static_cast<std::ptrdiff_t>(counted),
                          region.begin() + static_cast<std::ptrdiff_t>(place), '\n');
    counted = place;
  };
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t line_end = pattern_.one_by_one_ ? std::min(text.find('\n', at), text.size()) : text.size();
    const std::string_view part = pattern_.one_by_one_ ? text.substr(at, line_end - at) : text;
    re2::StringPiece match;
    if (!pattern_.compiled_->Match(re2::StringPiece(part.data(), part.size()), pattern_.one_by_one_ ? 0 : at,
                                   part.size(), RE2::UNANCHORED, &match, 1)) {
      if (!pattern_.one_by_one_) {
        break;
      }
      at = line_end + 1;
      continue;
    }
    const auto from = static_cast<std::size_t>(match.data() - text.data());
    const std::size_t feed = from == 0 ? text.npos : text.rfind('\n', from - 1);
    const std::size_t begin = feed == text.npos ? 0 : feed + 1;
    const std::size_t end = std::min(text.find('\n', from), text.size());
    count_to(begin);
    if (!add(region, from, from + match.size(), begin, end, !unfinished || end < text.size())) {
      break;
    }
    at = end + 1;
  }
  if (number_ != first) {
    count_to(region.size());
  }
}

/// False when the budget has no room for it. `whole`: the line's end is in the region.
bool LineSearch::add(std::string_view region, std::size_t from, std::size_t to, std::size_t begin, std::size_t end,
                     bool whole) {
  LineMatch match;
  match.number = number_;
  match.line = shown(region.substr(begin, end - begin), from - begin, to - begin);
  match.offset = base_ + as_offset(begin) + match.line.cut_before;
  match.from = base_ + as_offset(from);
  match.to = base_ + as_offset(to);
  if (begin < floor_) {
    match.line.cut_before += base_ - line_begin_;
  }
  if (!whole) {
    match.line.cut_after.reset();
  }
  match.before = lines_before(region, begin);
  std::int64_t cost = cost_ + as_offset(match.line.text.size());
  for (const ShownLine& line : match.before) {
    cost += as_offset(line.text.size());
  }
  if (budget_.matches == 0 || budget_.bytes < cost) {
    budget_.exceeded = true;
    return false;
  }
  --budget_.matches;
  budget_.bytes -= cost;
  if (context_ > 0) {
    open_.push_back({matches_.size(), context_, end + 1});
  }
  matches_.push_back(std::move(match));
  return true;
}

/// Up to context_ lines that end before `end`, where a line begins.
std::vector<ShownLine> LineSearch::lines_before(std::string_view region, std::size_t end) const {
  std::vector<ShownLine> lines;
  std::size_t at = end;
  while (lines.size() < context_ && at > floor_) {
    const std::size_t line_end = at - (region[at - 1] == '\n' ? 1 : 0);
    const std::size_t feed = line_end == 0 ? region.npos : region.rfind('\n', line_end - 1);
    const std::size_t begin = feed == region.npos || feed < floor_ ? floor_ : feed + 1;
    lines.push_back(shown(region.substr(begin, line_end - begin)));
    at = begin;
  }
  if (inside_ && end >= floor_ && lines.size() < context_) {
    lines.push_back(head_);
  }
  for (auto kept = kept_.rbegin(); kept != kept_.rend() && lines.size() < context_; ++kept) {
    lines.push_back(*kept);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

/// Gives matches the lines behind them. Those of earlier regions want lines from this one's first beginning on.
void LineSearch::fill_open(std::string_view region, bool unfinished) {
  for (Open& open : open_) {
    std::size_t at = std::max(open.next, floor_);
    while (open.missing > 0 && at < region.size()) {
      const std::size_t end = std::min(region.find('\n', at), region.size());
      ShownLine line = shown(region.substr(at, end - at));
      if (unfinished && end == region.size()) {
        line.cut_after.reset();
      }
      budget_.bytes -= as_offset(line.text.size());
      matches_[open.match].after.push_back(std::move(line));
      --open.missing;
      at = end + 1;
    }
    open.next = 0;
  }
  std::erase_if(open_, [](const Open& open) { return open.missing == 0; });
}

}  // namespace rex::files
