// Which paths a glob means. Pure; knows no files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace rex::files {

/// `*` and `?` stand for anything but a slash, also for a leading dot; `[a-z]`, `[!a-z]`, `{a,b}` and a backslash as in
/// shells; `**` for any number of directories. Without a slash it means names at any depth, with one the whole path
/// from where the search begins. Immutable.
class Glob {
 public:
  static constexpr std::size_t max_bytes = 4 << 10;

  /// Throws InvalidParams on member `glob`.
  explicit Glob(const std::string& glob);
  Glob(Glob&&) noexcept;
  ~Glob();

  /// `path`: relative to where the search begins. Bytes that are no UTF-8 count as one character each.
  [[nodiscard]] bool matches(std::string_view path) const;
  /// False where nothing below the directory `path` can match.
  [[nodiscard]] bool may_match_below(std::string_view path) const;

 private:
  std::unique_ptr<re2::RE2> pattern_;
  bool names_only_ = true;
  std::vector<std::string> begins_with_;  // directories without a wildcard
  std::optional<std::size_t> depth_;      // names in a path that matches; none: any number
};

}  // namespace rex::files
