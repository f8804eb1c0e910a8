// The part of a program's output that draws, made harmless for the emulator behind it: libvterm 0.3.3 loops for ever on
// a repetition of nothing, and writes beyond its rows after numbers near INT_MAX and characters of negative width (all
// met by fuzzing it). Must not know what a sequence draws.
#pragma once

#include <string>
#include <string_view>

#include "shell/escape.h"

namespace rex::shell {

/// Passive. Text becomes well-formed UTF-8 without C1 codes; of sequences only those pass that are known to draw, with
/// numbers of at most four digits; strings (OSC, DCS …) do not pass. A repetition (REP) becomes the characters.
class ScreenInput {
 public:
  static constexpr std::size_t kMaxSequence = 128;

  /// Appends to `out` what stands for `bytes`. At most `cols` characters come of a repetition.
  void take(std::string_view bytes, int cols, std::string& out);

 private:
  std::string_view take_text(std::string_view bytes, std::string& out);
  void take_sequence_byte(unsigned char byte, int cols, std::string& out);
  void complete(const Escape& sequence, int cols, std::string& out) const;

  EscapeParser parser_;
  std::string sequence_;  // without its ESC; of one that is too long the beginning
  std::string cut_;       // the beginning of a character
  std::string last_;      // the last character with a width
};

}  // namespace rex::shell
