// The `output` of a result: head and tail of what was written, and the journal range of what lies between.
// Must not know jobs, results or journals; knows no JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "shell/clean_view.h"
#include "shell/offset.h"

namespace rex::shell {

enum class View { clean, raw };

/// What was left out between the head and the tail.
struct Omitted {
  std::uint64_t bytes;  ///< of text, in the view asked for; in the raw view it is to - from
  Offset from;          ///< the journal range: the output is the text before `from` and the text from `to` on
  Offset to;
  std::size_t at;  ///< bytes of the output, before base64, that stand before the gap
};

struct CollectedOutput {
  std::string output;   ///< UTF-8, or base64 of the bytes
  bool base64 = false;  ///< only in the raw view, when the bytes kept are no UTF-8
  Offset from = 0;
  Offset next = 0;
  std::uint64_t total_bytes = 0;  ///< next - from: what the program wrote
  std::optional<Omitted> omitted;
  std::uint64_t replaced = 0;         ///< see CleanView
  std::uint64_t alternate_bytes = 0;  ///< see CleanView
};

/// Passive; collects one result. Its memory depends on `max_bytes` and not on the amount of output.
/// Half of `max_bytes` is for the head. Cuts fall between characters, and in the clean view never into a line that was
/// edited, whose text has no byte-wise place in the journal: such a line is kept or omitted as a whole.
class OutputText {
 public:
  static constexpr std::size_t kDefaultMaxBytes = 64 << 10;

  /// `max_bytes` bounds the text before base64; 0 keeps nothing and counts.
  OutputText(View view, std::size_t max_bytes, Offset from);

  /// Bytes that follow those fed before.
  void feed(std::string_view bytes);

  /// The offset of the next byte to be fed.
  [[nodiscard]] Offset next() const { return next_; }

  /// To be called once.
  [[nodiscard]] CollectedOutput finish();

 private:
  static constexpr std::size_t kSlack = 64 << 10;  // how far the tail outgrows its bound before it is moved

  struct Part {
    std::uint64_t at;  // position of its text in the whole text
    Offset from;
    Offset to;
    bool exact;
  };

  void add(Piece piece);
  void add_tail(Piece piece);
  void trim_tail();
  Offset cut_tail();
  /// How much text the tail must hold: its bound, and a character that a cut may fall into.
  [[nodiscard]] std::size_t wanted_size() const { return max_ + 4; }

  View view_;
  std::size_t max_;
  Offset from_;
  Offset next_;
  CleanView clean_;
  std::string head_;
  Offset head_to_;  // the bytes that the head stands for end here
  bool head_closed_ = false;
  std::string tail_;        // the end of the text
  std::deque<Part> parts_;  // of tail_
  std::uint64_t text_size_ = 0;
};

}  // namespace rex::shell
