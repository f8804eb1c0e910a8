#include "files/glob.h"

#include <re2/re2.h>

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"

namespace rex::files {
namespace {

/// The glob as a regular expression, read once from left to right.
class Translation {
 public:
  explicit Translation(std::string_view glob) : glob_(glob) {
    while (at_ < glob_.size()) {
      step();
    }
    if (depth_ > 0) {
      throw invalid_params("glob", "has a { without its }");
    }
  }
  [[nodiscard]] const std::string& pattern() const { return pattern_; }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < glob_.size() ? glob_[at_ + ahead] : '\0';
  }

  void step() {
    const char c = glob_[at_];
    if (c == '*') {
      stars();
    } else if (c == '?') {
      pattern_ += "[^/]";
      ++at_;
    } else if (c == '[') {
      set();
    } else if (c == '{') {
      pattern_ += "(?:";
      ++depth_;
      ++at_;
    } else if (depth_ > 0 && (c == ',' || c == '}')) {
      pattern_ += c == ',' ? "|" : ")";
      depth_ -= c == '}' ? 1 : 0;
      ++at_;
    } else {
      if (c == '\\' && ++at_ == glob_.size()) {
        throw invalid_params("glob", "ends in a backslash");
      }
      pattern_ += RE2::QuoteMeta(re2::StringPiece(glob_.data() + at_, 1));
      ++at_;
    }
  }

  void stars() {
    const bool begins = at_ == 0 || std::string_view("/{,").find(glob_[at_ - 1]) != std::string_view::npos;
    std::size_t count = 0;
    while (peek(count) == '*') {
      ++count;
    }
    at_ += count;
    if (count < 2 || !begins || (at_ < glob_.size() && peek() != '/')) {
      pattern_ += "[^/]*";
    } else if (at_ == glob_.size()) {
      pattern_ += ".+";
    } else {
      pattern_ += "(?:[^/]+/)*";
      ++at_;
    }
  }

  void set() {
    pattern_ += '[';
    ++at_;
    if (peek() == '!' || peek() == '^') {
      pattern_ += "^/";
      ++at_;
    }
    for (bool first = true; peek() != ']' || first; first = false) {
      const std::size_t named = peek() == '[' && peek(1) == ':' ? glob_.find(":]", at_) : std::string_view::npos;
      if (at_ >= glob_.size()) {
        throw invalid_params("glob", "has a [ without its ]");
      }
      if (named != std::string_view::npos) {
        pattern_ += glob_.substr(at_, named + 2 - at_);
        at_ = named + 2;
        continue;
      }
      at_ += peek() == '\\' ? 1 : 0;
      const bool plain = peek() == '-' && !first;
      pattern_ += plain ? std::string("-") : RE2::QuoteMeta(re2::StringPiece(glob_.data() + at_, at_ < glob_.size()));
      ++at_;
    }
    pattern_ += ']';
    ++at_;
  }

  std::string_view glob_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string pattern_;
};

}  // namespace

Glob::Glob(Glob&&) noexcept = default;
Glob::~Glob() = default;

Glob::Glob(const std::string& text) {
  if (text.empty() || text.size() > max_bytes) {
    throw invalid_params("glob", text.empty() ? "is empty" : "is longer than " + std::to_string(max_bytes) + " bytes");
  }
  if (text.front() == '!') {
    throw invalid_params("glob", "begins with !, which excludes nothing here; a name that begins so is \\!");
  }
  std::string glob = text;
  if (glob.starts_with("./")) {
    glob.erase(0, 1);
  }
  names_only_ = glob.find('/') == glob.npos;
  glob.erase(0, glob.starts_with('/') ? 1 : 0);
  glob += glob.ends_with('/') ? "**" : "";
  RE2::Options options;
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_dot_nl(true);
  options.set_max_mem(2 << 20);
  pattern_ = std::make_unique<RE2>(Translation(glob).pattern(), options);
  if (!pattern_->ok()) {
    throw invalid_params("glob", printable(pattern_->error()));
  }
  if (names_only_) {
    return;
  }
  std::size_t slash = 0;
  for (std::string_view rest = glob; (slash = rest.find('/')) != rest.npos; rest.remove_prefix(slash + 1)) {
    if (rest.substr(0, slash).find_first_of("*?[{\\") != rest.npos) {
      break;
    }
    begins_with_.emplace_back(rest.substr(0, slash));
  }
  if (glob.find("**") == glob.npos && glob.find('{') == glob.npos) {
    depth_ = static_cast<std::size_t>(std::count(glob.begin(), glob.end(), '/')) + 1;
  }
}

bool Glob::matches(std::string_view path) const {
  if (names_only_) {
    path.remove_prefix(path.rfind('/') + 1);
  }
  const auto full = [this](std::string_view text) {
    return pattern_->Match(re2::StringPiece(text.data(), text.size()), 0, text.size(), RE2::ANCHOR_BOTH, nullptr, 0);
  };
  return is_utf8(path) ? full(path) : full(replace_invalid_utf8(path));
}

bool Glob::may_match_below(std::string_view path) const {
  if (names_only_) {
    return true;
  }
  std::size_t depth = 0;
  for (std::string_view rest = path; !rest.empty(); ++depth) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    if (depth < begins_with_.size() && rest.substr(0, end) != begins_with_[depth]) {
      return false;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return !depth_ || depth < *depth_;
}

}  // namespace rex::files
