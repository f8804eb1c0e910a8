// RE2 keeps no state between calls, so text that may be the beginning of a match is searched again; how much of it, and
// how often, is what this file decides. Must not search a window anew for every chunk: a flood would stand still.
#include "shell/pattern.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace rex::shell {
namespace {

constexpr char kEscape = EscapeParser::kEscape;

RE2::Options options_of(std::size_t memory) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_max_mem(static_cast<std::int64_t>(memory));
  return options;
}

/// `^` and `$` at line boundaries.
std::string in_lines(const std::string& pattern) { return "(?m)" + pattern; }

/// Whether an escape in a pattern stands for something that cannot be a line feed.
bool is_tame_escape(char c, char next) {
  const bool punctuation = c > ' ' && c < '\x7F' && std::isalnum(static_cast<unsigned char>(c)) == 0;
  return punctuation || std::strchr("dwSbBAzrfv", c) != nullptr || (c == 't' && next != '-');
}

/// Whether a match might hold a line feed. Knows the ways to write one by sight and says yes in doubt, which costs time
/// and nothing else.
bool may_cross_lines(std::string_view pattern) {
  const auto at = [pattern](std::size_t i) { return i < pattern.size() ? pattern[i] : '\0'; };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = at(i + 1);
    if (static_cast<unsigned char>(c) < ' ' || (c == '[' && (next == '^' || next == ':'))) {
      return true;
    }
    if (c == '\\' && !is_tame_escape(next, at(i + 2))) {
      return true;
    }
    if (c == '(' && next == '?' && at(i + 2) != 'P' && at(i + 2) != '<' &&
        pattern.substr(i, pattern.find_first_of(":)", i) - i).find('s') != std::string_view::npos) {
      return true;
    }
    i += c == '\\' ? 1 : 0;
  }
  return false;
}

}  // namespace

struct PatternSet::Any : RE2::Set {
  using RE2::Set::Set;
};

PatternSet::PatternSet() = default;
PatternSet::PatternSet(PatternSet&&) noexcept = default;
PatternSet::~PatternSet() = default;

PatternSet::PatternSet(const std::vector<std::string>& patterns, std::string_view member) {
  if (patterns.size() > kMaxPatterns) {
    throw invalid_params(member, "at most " + std::to_string(kMaxPatterns) + " patterns");
  }
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    add(patterns[i], std::string(member) + "[" + std::to_string(i) + "]");
  }
  if (patterns.size() > 1) {
    any_ = std::make_unique<Any>(options_of(kMaxSetMemory), RE2::UNANCHORED);
    for (const std::string& pattern : patterns) {
      any_->Add(in_lines(pattern), nullptr);
    }
    if (!any_->Compile()) {
      any_.reset();
    }
  }
}

std::shared_ptr<const PatternSet> PatternSet::one(const std::string& pattern, std::string_view member) {
  PatternSet set;
  set.add(pattern, std::string(member));
  return std::make_shared<const PatternSet>(std::move(set));
}

void PatternSet::add(const std::string& pattern, const std::string& member) {
  if (pattern.size() > kMaxPatternBytes) {
    throw invalid_params(member, "longer than " + std::to_string(kMaxPatternBytes) + " bytes");
  }
  const RE2::Options options = options_of(kMaxMemory);
  auto compiled = std::make_unique<RE2>(in_lines(pattern), options);
  if (!compiled->ok()) {
    const RE2 as_written(pattern, options);  // whose message does not show our prefix
    throw invalid_params(member, printable(as_written.ok() ? compiled->error() : as_written.error()));
  }
  patterns_.push_back(std::move(compiled));
  within_lines_ = within_lines_ && !may_cross_lines(pattern);
}

std::optional<PatternSet::Found> PatternSet::find(std::string_view text, std::size_t from) const {
  const re2::StringPiece whole(text.data(), text.size());
  if (any_ != nullptr) {
    // One pass for all of them. A character of context, so that `\B` is not mistaken; when its automaton has outgrown
    // its memory, it cannot tell.
    const std::size_t context = from > 0 ? from - 1 : 0;
    RE2::Set::ErrorInfo error{RE2::Set::kNoError};
    const re2::StringPiece part(text.data() + context, text.size() - context);
    if (!any_->Match(part, nullptr, &error) && error.kind == RE2::Set::kNoError) {
      return std::nullopt;
    }
  }
  std::optional<Found> first;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    re2::StringPiece match;
    if (!patterns_[i]->Match(whole, from, whole.size(), RE2::UNANCHORED, &match, 1)) {
      continue;
    }
    const auto at = static_cast<std::size_t>(match.data() - whole.data());
    if (!first || at < first->from) {
      first = Found{i, at, at + match.size()};
    }
  }
  return first;
}

Scanner::Scanner(std::shared_ptr<const PatternSet> patterns, Offset from, bool strip_ansi)
    : patterns_(std::move(patterns)), strip_ansi_(strip_ansi), next_(from) {}

std::optional<Match> Scanner::feed(std::string_view bytes, Offset offset) {
  if (offset > next_) {
    parser_.reset();
    text_.clear();
    runs_.clear();
    begin_ = searched_ = line_ = unsettled_ = 0;
    next_ = offset;
  }
  bytes.remove_prefix(std::min<Offset>(bytes.size(), next_ - offset));
  std::optional<Match> match;
  do {
    const std::string_view slice = bytes.substr(0, kWindow);
    bytes.remove_prefix(slice.size());
    add(slice);
    match = search(recent());
  } while (!match && !bytes.empty());
  add(bytes);  // behind a match; at most what one call brings
  return match;
}

std::optional<Match> Scanner::settle() { return due_ || unsettled_ > 0 ? search(begin_) : std::nullopt; }

/// Where to search from when bytes have come: not before where a match must start to reach into them, as far as we
/// know.
std::size_t Scanner::recent() const {
  if (unsettled_ >= kWindow) {
    return begin_;
  }
  const std::size_t from = std::max(begin_, patterns_->within_lines_ ? line_ : 0);
  return std::max(from, searched_ - std::min(searched_, kRecent));
}

std::optional<Match> Scanner::search(std::size_t from) {
  const bool all = from == begin_ || (patterns_->within_lines_ && unsettled_ == 0 && from == line_);
  const auto found = from <= text_.size() ? patterns_->find(text_, from) : std::nullopt;
  if (found) {
    Match match{found->index, text_.substr(found->from, found->to - found->from), raw_of(found->from), 0};
    match.to = match.text.empty() ? match.from : raw_of(found->to - 1) + 1;
    begin_ = searched_ = std::max(found->to, found->from + (match.text.empty() ? 1 : 0));
    line_ = 0;
    unsettled_ = 0;
    due_ = true;
    trim();
    return match;
  }
  due_ = false;
  unsettled_ = all ? 0 : unsettled_ + text_.size() - searched_;
  if (const auto feed = std::string_view(text_).substr(std::min(searched_, text_.size())).rfind('\n');
      feed != std::string_view::npos) {
    line_ = searched_ + feed + 1;
  }
  searched_ = text_.size();
  trim();
  return std::nullopt;
}

void Scanner::add(std::string_view bytes) {
  due_ = due_ || !bytes.empty();
  while (!bytes.empty()) {
    std::size_t size = 0;
    if (!strip_ansi_) {
      size = bytes.size();
      add_text(bytes);
    } else if (parser_.inside()) {
      size = parser_.skip(bytes);
      if (size < bytes.size() && parser_.step(static_cast<unsigned char>(bytes[size])) != EscapeParser::Step::refused) {
        ++size;
      }
    } else if (bytes.front() == kEscape) {
      parser_.open(kEscape);
      size = 1;
    } else {
      size = std::min(bytes.find(kEscape), bytes.size());
      add_text(bytes.substr(0, size));
    }
    next_ += size;
    bytes.remove_prefix(size);
  }
}

void Scanner::add_text(std::string_view bytes) {
  const std::uint64_t at = forgotten_ + text_.size();
  if (runs_.empty() || runs_.back().raw + (at - runs_.back().at) != next_) {
    runs_.push_back({at, next_});
  }
  text_ += bytes;
}

Offset Scanner::raw_of(std::size_t at) const {
  const std::uint64_t position = forgotten_ + at;
  auto run =
      std::upper_bound(runs_.begin(), runs_.end(), position, [](std::uint64_t p, const Run& r) { return p < r.at; });
  if (run == runs_.begin()) {
    return next_;  // no text yet
  }
  --run;
  return run->raw + (position - run->at);
}

/// Forgets text in which no match can start any more, except a character that `^` and `\b` look back at.
void Scanner::trim() {
  if (patterns_->within_lines_ && unsettled_ == 0) {
    begin_ = std::max(begin_, line_);
  }
  begin_ = std::max(begin_, searched_ - std::min(searched_, kWindow));
  if (begin_ <= kWindow) {
    return;
  }
  const std::size_t size = std::min(begin_, text_.size()) - 1;
  text_.erase(0, size);
  forgotten_ += size;
  begin_ -= size;
  searched_ -= size;
  line_ -= std::min(line_, size);
  while (runs_.size() > 1 && runs_[1].at <= forgotten_) {
    runs_.pop_front();
  }
}

}  // namespace rex::shell
