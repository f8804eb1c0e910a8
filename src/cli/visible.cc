#include "cli/visible.h"

#include <cstdio>
#include <utility>

#include "base/encoding.h"

namespace rex::cli {
namespace {

// The longest beginning of a colour, or of a character, that is waited for.
constexpr std::size_t max_held = 64;

/// The length of a colour (`ESC [ … m`) at the beginning of `text`; 0: it is none; npos: its end has not come.
std::size_t colour_length(std::string_view text) {
  if (text.size() < 2) {
    return text.size() == 1 ? std::string_view::npos : 0;
  }
  const std::size_t end = text.find_first_not_of("0123456789;:", 2);
  if (text[1] != '[') {
    return 0;
  }
  return end == std::string_view::npos ? end : text[end] == 'm' ? end + 1 : 0;
}

std::string escaped(char byte) {
  char text[5];
  std::snprintf(text, sizeof text, "\\x%02x", static_cast<unsigned char>(byte));
  return text;
}

bool is_c1_control(std::string_view sequence) {
  return sequence.size() == 2 && sequence[0] == '\xc2' && sequence[1] < '\xa0';
}

}  // namespace

std::string VisibleText::feed(std::string_view bytes) {
  const std::string all = std::exchange(held_, {}) + std::string(bytes);
  std::string shown;
  std::size_t at = 0;
  while (at < all.size()) {
    const std::string_view rest = std::string_view(all).substr(at);
    const char c = rest[0];
    const bool is_cut = c == '\x1b' ? colour_length(rest) == std::string_view::npos
                                    : (c == '\r' && rest.size() == 1) || incomplete_utf8_tail(rest) == rest.size();
    if (is_cut && rest.size() < max_held) {
      held_ = rest;
      break;
    }
    const std::size_t colour = c == '\x1b' ? colour_length(rest) : 0;
    const std::size_t length = utf8_sequence(rest);
    if (colour != 0 && colour != std::string_view::npos) {
      at += colour;
    } else if (rest.starts_with("\r\n")) {
      ++at;
    } else if (length == 0 || (c >= 0 && c < 0x20 && c != '\n' && c != '\t') || c == '\x7f' ||
               is_c1_control(rest.substr(0, length))) {
      const std::size_t size = length == 0 ? 1 : length;
      for (const char byte : rest.substr(0, size)) {
        shown += escaped(byte);
      }
      at += size;
    } else {
      shown += rest.substr(0, length);
      at += length;
    }
  }
  return shown;
}

std::string VisibleText::finish() {
  std::string shown;
  for (const char byte : std::exchange(held_, {})) {
    shown += escaped(byte);
  }
  return shown;
}

}  // namespace rex::cli
