#include "rpc/json_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/encoding.h"
#include "base/secret.h"

namespace rex::rpc {

using nlohmann::json;

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::size_t longest_character = 4;  // in UTF-8
// Of what is written with no look at the room there is: a number or an escape, and what may stand around it.
constexpr std::size_t longest_token = 64;

constexpr std::array<bool, 256> escaped_bytes = [] {
  std::array<bool, 256> escaped{};
  std::fill_n(escaped.begin(), 0x20, true);
  escaped['"'] = escaped['\\'] = true;
  return escaped;
}();

bool is_escaped(char c) { return escaped_bytes[static_cast<unsigned char>(c)]; }

/// Neither a string nor a container, in a text that is known to be JSON.
bool is_in_word(char c) { return c > ' ' && c != ',' && c != ']' && c != '}'; }

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

void append_checked(std::string& out, const std::string& text) {
  if (!is_utf8(text)) {
    out += json(text).dump();  // which says what is wrong
  }
  append_string(out, text);
}

}  // namespace

/// Eight bytes a step: each byte of a word that is one has its highest bit set then, and so may one behind it, but none
/// before.
const char* find_escaped(const char* begin, const char* end) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::uint64_t each = ~std::uint64_t{0} / 255;
  const auto less = [](std::uint64_t word, std::uint64_t than) { return (word - each * than) & ~word; };
  for (; end - begin >= 8; begin += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, begin, sizeof word);
    const std::uint64_t found =
        (less(word, 0x20) | less(word ^ each * '"', 1) | less(word ^ each * '\\', 1)) & each * 0x80;
    if (found != 0) {
      return begin + std::countr_zero(found) / 8;
    }
  }
  return std::find_if(begin, end, is_escaped);
}

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

/// The rest of a string that begins with `plain`.
bool Scanner::read_escaped(std::string_view plain, std::string& room) {
  room.clear();
  const auto add = [&room](std::string_view more) {
    make_room(room, more.size() + longest_character);
    room += more;
  };
  add(plain);
  while (take('\\') && read_escape(room)) {
    add(take_plain());
    if (take('"')) {
      return true;
    }
  }
  return false;
}

void Scanner::skip_value() {
  std::size_t depth = 0;
  do {
    const char c = *p_++;
    if (c == '"') {
      while (take_plain(), p_ != end_ && *p_ != '"') {
        p_ += p_ + 1 != end_ ? 2 : 1;
      }
      take('"');
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (depth == 0) {
      p_ = std::find_if_not(p_, end_, is_in_word);
    }
  } while (depth > 0 && p_ != end_);
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

void append_string(std::string& out, std::string_view utf8) {
  static constexpr char hex[] = "0123456789abcdef";
  static constexpr std::string_view names = "btn-fr";  // of the bytes from 8 to 13, but for one
  make_room(out, longest_token);
  out += '"';
  while (!utf8.empty()) {
    const char* const begin = utf8.data();
    const auto plain = static_cast<std::size_t>(find_escaped(begin, begin + utf8.size()) - begin);
    make_room(out, plain + longest_token);
    out.append(utf8, 0, plain);
    utf8.remove_prefix(plain);
    if (utf8.empty()) {
      break;
    }
    const auto byte = static_cast<unsigned char>(utf8.front());
    utf8.remove_prefix(1);
    out += '\\';
    if (byte >= 0x20) {
      out += static_cast<char>(byte);
    } else if (byte >= 8 && byte < 8 + names.size() && names[byte - 8U] != '-') {
      out += names[byte - 8U];
    } else {
      ((out += "u00") += hex[byte >> 4U]) += hex[byte & 15U];
    }
  }
  out += '"';
}

void wipe_strings(json& value) {
  if (value.is_string()) {
    wipe(value.get_ref<std::string&>());
  } else if (value.is_structured()) {
    for (json& each : value) {
      wipe_strings(each);
    }
  }
}

void append_json(std::string& out, const json& value) {
  const char* separator = "";
  make_room(out, longest_token);
  switch (value.type()) {
    case json::value_t::object:
      out += '{';
      for (const auto& [name, member] : value.get_ref<const json::object_t&>()) {
        out += separator;
        append_checked(out, name);
        out += ':';
        append_json(out, member);
        separator = ",";
      }
      out += '}';
      break;
    case json::value_t::array:
      out += '[';
      for (const json& element : value.get_ref<const json::array_t&>()) {
        out += separator;
        append_json(out, element);
        separator = ",";
      }
      out += ']';
      break;
    case json::value_t::string: append_checked(out, value.get_ref<const std::string&>()); break;
    case json::value_t::number_integer: out += std::to_string(value.get<std::int64_t>()); break;
    case json::value_t::number_unsigned: out += std::to_string(value.get<std::uint64_t>()); break;
    case json::value_t::boolean: out += value.get<bool>() ? "true" : "false"; break;
    case json::value_t::null: out += "null"; break;
    default: out += value.dump();
  }
}

}  // namespace rex::rpc
