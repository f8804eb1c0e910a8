// After the well-known state machine of the DEC VT500 series, with two differences: a line feed ends a sequence (losing
// lines is worse than showing a torn sequence), and control codes inside one are not executed.
#include "shell/escape.h"

#include <algorithm>

namespace rex::shell {
namespace {

constexpr unsigned char kBell = 0x07;
constexpr unsigned char kLineFeed = 0x0A;
constexpr unsigned char kCancel = 0x18;
constexpr unsigned char kSubstitute = 0x1A;

bool ends_any(unsigned char byte) { return byte == kCancel || byte == kSubstitute; }

}  // namespace

bool EscapeParser::open(unsigned char code) {
  switch (code) {
    case kEscape: state_ = State::escape; break;
    case 0x9B: state_ = State::csi; break;
    case 0x90: state_ = State::dcs; break;
    case 0x9D: state_ = State::osc; break;
    case 0x98:
    case 0x9E:
    case 0x9F: state_ = State::other_string; break;
    default: return false;
  }
  sequence_ = Escape{};
  return true;
}

EscapeParser::Step EscapeParser::step(unsigned char byte) {
  if (byte == kEscape) {  // also the first half of the ST that ends a string: its `\` then changes nothing
    open(byte);
    return Step::eaten;
  }
  if (ends_any(byte)) {
    reset();
    return Step::eaten;
  }
  switch (state_) {
    case State::escape: return step_escape(byte);
    case State::csi: return step_csi(byte);
    case State::dcs: return Step::eaten;
    default: break;
  }
  if (byte == kLineFeed) {
    reset();
    return Step::refused;
  }
  if (byte == kBell && state_ == State::osc) {
    reset();
    sequence_.kind = Escape::Kind::string;
    return Step::complete;
  }
  return Step::eaten;
}

EscapeParser::Step EscapeParser::step_escape(unsigned char byte) {
  if (byte >= 0x20 && byte < 0x30) {
    sequence_.intermediate = static_cast<char>(byte);
    return Step::eaten;
  }
  if (byte == kLineFeed || byte >= 0x7F) {
    reset();
    return Step::refused;
  }
  if (byte < 0x20) {
    return Step::eaten;
  }
  // ESC with a letter of 0x40 to 0x5F is the seven-bit form of a C1 code.
  if (sequence_.intermediate == 0 && byte < 0x60 && open(static_cast<unsigned char>(byte + 0x40))) {
    return Step::eaten;
  }
  reset();
  sequence_.kind = Escape::Kind::escape;
  sequence_.final = static_cast<char>(byte);
  return Step::complete;
}

EscapeParser::Step EscapeParser::step_csi(unsigned char byte) {
  if (byte >= 0x40 && byte < 0x7F) {
    reset();
    sequence_.kind = Escape::Kind::csi;
    sequence_.final = static_cast<char>(byte);
    return Step::complete;
  }
  if (byte == kLineFeed || byte >= 0x7F) {
    reset();
    return Step::refused;
  }
  if (byte >= 0x30) {
    parameter_byte(byte);
  } else if (byte >= 0x20) {
    sequence_.intermediate = static_cast<char>(byte);
  }
  return Step::eaten;
}

void EscapeParser::parameter_byte(unsigned char byte) {
  if (byte >= '<') {
    sequence_.prefix = static_cast<char>(byte);
    return;
  }
  if (sequence_.count == 0) {
    sequence_.count = 1;
  }
  if (byte > '9') {  // a colon divides what only colours use
    sequence_.count = std::min(sequence_.count + 1, Escape::kMaxParameters);
    return;
  }
  std::uint16_t& number = sequence_.parameters[sequence_.count - 1];
  number = static_cast<std::uint16_t>(std::min(number * 10 + (byte - '0'), 0x7FFF));
}

std::size_t EscapeParser::skip(std::string_view bytes) const {
  if (state_ != State::dcs && state_ != State::osc && state_ != State::other_string) {
    return 0;
  }
  const auto inner =
      std::find_if(bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  return static_cast<std::size_t>(inner - bytes.begin());
}

}  // namespace rex::shell
