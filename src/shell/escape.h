// The grammar of terminal control sequences (ECMA-48 and what xterm made of it), one byte at a time.
// Must not know what a sequence does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rex::shell {

/// A control sequence that is complete.
struct Escape {
  static constexpr std::size_t kMaxParameters = 16;

  enum class Kind : std::uint8_t { escape, csi, string };
  Kind kind = Kind::escape;
  char prefix = 0;        ///< of a CSI: one of `<=>?`, or 0
  char intermediate = 0;  ///< the last one, or 0
  char final = 0;
  std::size_t count = 0;
  std::array<std::uint16_t, kMaxParameters> parameters{};

  /// Parameter `i`, or `fallback` when it is absent or 0.
  [[nodiscard]] std::size_t number(std::size_t i, std::size_t fallback) const {
    return i < count && parameters[i] != 0 ? parameters[i] : fallback;
  }
};

/// Passive. Eats bytes from ESC (or the CSI, OSC, DCS … of C1) to the end of the sequence, keeps no text.
/// A stray introducer must not swallow the output: a line feed, CAN, SUB or another ESC ends every sequence except that
/// a DCS (an image) may hold line feeds.
class EscapeParser {
 public:
  static constexpr unsigned char kEscape = 0x1B;

  enum class Step : std::uint8_t {
    eaten,     ///< the byte belongs to the sequence, which goes on
    complete,  ///< the byte ended it: `sequence()` says what it was
    refused,   ///< the byte does not belong to it: the sequence is void, take the byte as text or control code
  };

  [[nodiscard]] bool inside() const { return state_ != State::ground; }

  /// An introducer: ESC, or a C1 code (U+0080 to U+009F, by its number). Returns false for a C1 code that opens none.
  bool open(unsigned char code);

  /// The next byte; only when `inside()`.
  Step step(unsigned char byte);

  /// How many of the leading bytes are the inner part of a string (OSC, DCS …) and can be passed over at once.
  [[nodiscard]] std::size_t skip(std::string_view bytes) const;

  [[nodiscard]] const Escape& sequence() const { return sequence_; }
  void reset() { state_ = State::ground; }

 private:
  enum class State : std::uint8_t { ground, escape, csi, osc, dcs, other_string };
  Step step_escape(unsigned char byte);
  Step step_csi(unsigned char byte);
  void parameter_byte(unsigned char byte);

  State state_ = State::ground;
  Escape sequence_;
};

}  // namespace rex::shell
