#include "rpc/json_text.h"

#include <charconv>
#include <cstdlib>

namespace rex::rpc {

using nlohmann::json;

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
    return;
  }
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xe0 | code >> 12);
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
    }
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

}  // namespace

json value_of(const Number& number) {
  const char* const begin = number.text.data();
  const char* const end = begin + number.text.size();
  if (number.integer) {
    std::int64_t small = 0;
    if (std::from_chars(begin, end, small).ec == std::errc()) {
      return small;
    }
    std::uint64_t large = 0;
    if (*begin != '-' && std::from_chars(begin, end, large).ec == std::errc()) {
      return large;
    }
  }
  double real = 0;
  if (std::from_chars(begin, end, real).ec != std::errc()) {
    // Out of range: an infinity or zero, which no typed reader mistakes.
    real = std::strtod(std::string(number.text).c_str(), nullptr);
  }
  return real;
}

bool Scanner::read_string(std::string& text) {
  text.clear();
  if (!take('"')) {
    return false;
  }
  while (p_ != end_) {
    const char* const run = p_;
    while (p_ != end_ && *p_ != '"' && *p_ != '\\' && static_cast<unsigned char>(*p_) >= 0x20) {
      ++p_;
    }
    text.append(run, p_);
    if (take('"')) {
      return true;
    }
    if (!take('\\') || !read_escape(text)) {
      return false;
    }
  }
  return false;
}

bool Scanner::read_escape(std::string& text) {
  if (p_ == end_) {
    return false;
  }
  const char c = *p_++;
  switch (c) {
    case '"':
    case '\\':
    case '/': text += c; return true;
    case 'b': text += '\b'; return true;
    case 'f': text += '\f'; return true;
    case 'n': text += '\n'; return true;
    case 'r': text += '\r'; return true;
    case 't': text += '\t'; return true;
    case 'u': break;
    default: return false;
  }
  std::uint32_t code = 0;
  std::uint32_t low = 0;
  if (!read_hex(&code)) {
    return false;
  }
  if (code >= 0xd800 && code < 0xe000) {
    if (code >= 0xdc00 || !take('\\') || !take('u') || !read_hex(&low) || low < 0xdc00 || low >= 0xe000) {
      return false;  // half a character cannot be written in UTF-8
    }
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(text, code);
  return true;
}

bool Scanner::read_hex(std::uint32_t* code) {
  if (end_ - p_ < 4) {
    return false;
  }
  const auto [stop, error] = std::from_chars(p_, p_ + 4, *code, 16);
  const bool sound = error == std::errc() && stop == p_ + 4;
  p_ += sound ? 4 : 0;
  return sound;
}

bool Scanner::read_digits() {
  const char* const start = p_;
  while (p_ != end_ && is_digit(*p_)) {
    ++p_;
  }
  return p_ != start;
}

bool Scanner::read_number(Number* number) {
  const char* const start = p_;
  bool integer = true;
  take('-');
  if (!take('0') && !read_digits()) {
    return false;
  }
  if (take('.')) {
    integer = false;
    if (!read_digits()) {
      return false;
    }
  }
  if (take('e') || take('E')) {
    integer = false;
    if (!take('+')) {
      take('-');
    }
    if (!read_digits()) {
      return false;
    }
  }
  *number = {since(start), integer};
  return true;
}

}  // namespace rex::rpc
