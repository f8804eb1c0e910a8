// What a far side prints until a rex-rpc speaks there: lines of our own script, and noise of everybody else's.
// Passive: is fed bytes, does no I/O, and knows no transport and no script.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rex::hosts {

inline constexpr std::size_t max_noise = 64 * 1024;                // kept; what comes later is only counted
inline constexpr std::size_t max_noise_in_all = 16 * 1024 * 1024;  // more is a flood that will not end
inline constexpr std::size_t max_start_line = 8 * 1024;

/// `SENTINEL WORD TEXT`, as our script prints it.
struct StartLine {
  std::string word;
  std::string text;
  bool has_carriage_return = false;  // a terminal on the way has changed its end
};

/// A line is ours from where the sentinel stands to its end; whatever stands before it, on the same line too, is noise.
class StartReader {
 public:
  /// `sentinel` is random: nobody can have printed it before we told it.
  explicit StartReader(std::string sentinel) : sentinel_(std::move(sentinel)) {}

  void feed(std::string_view bytes);
  /// The next line of ours, if it is there as a whole.
  std::optional<StartLine> next();
  /// What came after the last line that `next` gave: the first bytes of what speaks next. Nothing is noise any more.
  std::string take_rest();

  /// The first max_noise bytes of it; up to half a sentinel and a line that is not complete yet are not among them.
  [[nodiscard]] const std::string& noise() const { return noise_; }
  /// The end of it, for a question that nobody sees ("press enter").
  [[nodiscard]] const std::string& last_noise() const { return last_noise_; }
  [[nodiscard]] std::size_t noise_bytes() const { return noise_bytes_; }
  [[nodiscard]] bool is_flooded() const { return noise_bytes_ > max_noise_in_all; }
  /// Ends the search: what was held back is noise too.
  void finish();

 private:
  void take_noise(std::size_t size);

  std::string sentinel_;
  std::string held_;  // at most a line or the beginning of a sentinel, and what was fed last
  std::string noise_;
  std::string last_noise_;
  std::size_t noise_bytes_ = 0;
};

}  // namespace rex::hosts
