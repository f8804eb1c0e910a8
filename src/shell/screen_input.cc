#include "shell/screen_input.h"

#include <algorithm>

#include "base/encoding.h"
#include "shell/char_width.h"

namespace rex::shell {
namespace {

constexpr int max_digits = 4;

bool has(std::string_view all, char one) { return all.find(one) != std::string_view::npos; }

bool is_c1(std::string_view character) {
  return character.size() == 2 && character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
}

/// CSI sequences that draw, or say how to. Not among them: margins at the sides, columns, tests, reports.
bool draws(const Escape& csi) {
  if (csi.intermediate != 0) {
    return csi.intermediate == '!' && csi.final == 'p';
  }
  if (csi.prefix != 0) {
    return csi.prefix == '?' && has("hlJK", csi.final) && csi.number(0, 0) != 69;
  }
  return has("@ABCDEFGHIJKLMPSTXZ`adefghlmrsu", csi.final);
}

/// Letters and character sets: save, restore, index, tabs, reset, keypad.
bool draws_by_escape(const Escape& escape) {
  return escape.intermediate == 0 ? has("78DEHMc=>", escape.final)
                                  : has("()*+", escape.intermediate) && has("B0A", escape.final);
}

/// `sequence` with every number cut to what a screen could need.
std::string bounded(std::string_view sequence) {
  std::string out;
  int digits = 0;
  for (const char c : sequence) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > max_digits) {
      std::fill(out.end() - max_digits, out.end(), '9');
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void ScreenInput::take(std::string_view bytes, int cols, std::string& out) {
  while (!bytes.empty()) {
    if (parser_.inside()) {
      const std::size_t inner = parser_.skip(bytes);
      bytes.remove_prefix(inner);
      if (!bytes.empty()) {
        take_sequence_byte(static_cast<unsigned char>(bytes[0]), cols, out);
        bytes.remove_prefix(1);
      }
    } else if (cut_.empty() && static_cast<unsigned char>(bytes[0]) == EscapeParser::kEscape) {
      parser_.open(EscapeParser::kEscape);
      sequence_.clear();
      bytes.remove_prefix(1);
    } else {
      bytes = take_text(bytes, out);
    }
  }
}

/// One character or control code, or a run of ASCII; returns what is behind it.
std::string_view ScreenInput::take_text(std::string_view bytes, std::string& out) {
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7F; };
  const auto run = static_cast<std::size_t>(std::find_if_not(bytes.begin(), bytes.end(), plain) - bytes.begin());
  if (run != 0 && cut_.empty()) {
    out += bytes.substr(0, run);
    last_ = bytes.substr(run - 1, 1);
    return bytes.substr(run);
  }
  cut_ += bytes[0];
  const std::size_t size = utf8_sequence(cut_);
  if (size == 0 && incomplete_utf8_tail(cut_) == cut_.size()) {
    return bytes.substr(1);
  }
  if (size == 0) {
    out += "\xEF\xBF\xBD";
    const bool alone = cut_.size() == 1;  // else the last byte may begin something
    cut_.clear();
    return alone ? bytes.substr(1) : bytes;
  }
  if (!is_c1(cut_)) {
    out += cut_;
    if (static_cast<unsigned char>(cut_[0]) >= 0x20 && char_width(decode_utf8(cut_)) != 0) {
      last_ = cut_;
    }
  }
  cut_.clear();
  return bytes.substr(1);
}

void ScreenInput::take_sequence_byte(unsigned char byte, int cols, std::string& out) {
  if (byte == EscapeParser::kEscape) {
    sequence_.clear();
  } else if (sequence_.size() < kMaxSequence) {
    sequence_ += static_cast<char>(byte);
  }
  switch (parser_.step(byte)) {
    case EscapeParser::Step::complete: complete(parser_.sequence(), cols, out); break;
    case EscapeParser::Step::refused: out += byte == '\n' ? "\n" : ""; break;
    case EscapeParser::Step::eaten: break;
  }
}

void ScreenInput::complete(const Escape& sequence, int cols, std::string& out) const {
  const bool csi = sequence.kind == Escape::Kind::csi;
  if (csi && sequence.final == 'b' && sequence.prefix == 0 && sequence.intermediate == 0) {
    for (std::size_t i = std::min(sequence.number(0, 1), static_cast<std::size_t>(cols)); i != 0; --i) {
      out += last_;
    }
    return;
  }
  const bool known = csi ? draws(sequence) : sequence.kind == Escape::Kind::escape && draws_by_escape(sequence);
  const bool whole = sequence_.size() < kMaxSequence &&
                     std::all_of(sequence_.begin(), sequence_.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  if (known && whole) {
    out += "\033" + bounded(sequence_);
  }
}

}  // namespace rex::shell
