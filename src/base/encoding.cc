// The decoder below walks the table of well-formed sequences of RFC 3629, section 4. Must not allocate for validation:
// every byte of output passes here.
#include "base/encoding.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace rex {
namespace {

using Byte = unsigned char;

bool is_continuation(Byte byte) { return (byte & 0xC0) == 0x80; }

/// How a sequence goes on after its first byte: its length, and the range of its second byte. Length 0: cannot begin.
struct Lead {
  std::size_t length;
  Byte low = 0x80;
  Byte high = 0xBF;
};

Lead lead_of(Byte byte) {
  if (byte < 0x80) {
    return {1};
  }
  if (byte < 0xC2) {
    return {0};  // a continuation byte, or an overlong form of ASCII
  }
  if (byte < 0xE0) {
    return {2};
  }
  if (byte < 0xF0) {
    // E0 would be overlong below A0; ED would be a surrogate above 9F.
    return {3, static_cast<Byte>(byte == 0xE0 ? 0xA0 : 0x80), static_cast<Byte>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {4, static_cast<Byte>(byte == 0xF0 ? 0x90 : 0x80), static_cast<Byte>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0};
}

/// How many bytes at the start of `bytes` fit the table: the whole sequence, or as far as it goes (0 to 4).
struct Match {
  std::size_t matched;
  std::size_t length;  // of the whole sequence; 0 when its first byte cannot begin one
};

Match match(std::string_view bytes) {
  const Lead lead = lead_of(static_cast<Byte>(bytes.front()));
  if (lead.length == 0) {
    return {0, 0};
  }
  std::size_t matched = 1;
  while (matched < lead.length && matched < bytes.size()) {
    const auto byte = static_cast<Byte>(bytes[matched]);
    const bool fits = matched == 1 ? lead.low <= byte && byte <= lead.high : is_continuation(byte);
    if (!fits) {
      break;
    }
    ++matched;
  }
  return {matched, lead.length};
}

constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr Byte kNoDigit = 0xFF;

constexpr std::array<Byte, 256> kDigitValues = [] {
  std::array<Byte, 256> values{};
  values.fill(kNoDigit);
  for (std::size_t i = 0; i < 64; ++i) {
    values[static_cast<Byte>(kDigits[i])] = static_cast<Byte>(i);
  }
  return values;
}();

}  // namespace

std::size_t utf8_sequence(std::string_view bytes) {
  if (bytes.empty()) {
    return 0;
  }
  const Match m = match(bytes);
  return m.matched == m.length ? m.length : 0;
}

std::size_t first_invalid_utf8(std::string_view bytes) {
  constexpr std::uint64_t high_bits = 0x8080808080808080U;
  std::size_t at = 0;
  while (at < bytes.size()) {
    while (at + 8 <= bytes.size()) {  // text is mostly ASCII: eight bytes a step
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, 8);
      if ((word & high_bits) != 0) {
        break;
      }
      at += 8;
    }
    while (at < bytes.size() && static_cast<Byte>(bytes[at]) < 0x80) {
      ++at;
    }
    while (at < bytes.size() && static_cast<Byte>(bytes[at]) >= 0x80) {
      const std::size_t length = utf8_sequence(bytes.substr(at, 4));
      if (length == 0) {
        return at;
      }
      at += length;
    }
  }
  return bytes.size();
}

bool is_utf8(std::string_view bytes) { return first_invalid_utf8(bytes) == bytes.size(); }

std::size_t incomplete_utf8_tail(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const std::string_view tail = bytes.substr(bytes.size() - back);
    if (!is_continuation(static_cast<Byte>(tail.front()))) {
      const Match m = match(tail);
      return m.matched == back && m.length > back ? back : 0;
    }
  }
  return 0;
}

std::size_t cut_utf8_head(std::string_view bytes) {
  const auto whole = std::find_if_not(bytes.begin(), bytes.end(), [](char c) { return is_continuation(Byte(c)); });
  return static_cast<std::size_t>(whole - bytes.begin());
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t good = first_invalid_utf8(bytes);
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (!bytes.empty()) {
      out += "\xEF\xBF\xBD";
      const std::size_t bad = match(bytes).matched;
      bytes.remove_prefix(bad == 0 ? 1 : bad);
    }
  }
  return out;
}

std::string latin1_to_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<Byte>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xC0 | (byte >> 6));
      out += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return out;
}

std::optional<std::string> utf8_to_latin1(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<Byte>(text[at]);
    const std::size_t length = utf8_sequence(text.substr(at, 4));
    if (length == 1) {
      out += text[at];
    } else if (length == 2 && byte <= 0xC3) {
      out += static_cast<char>((byte & 0x03) << 6 | (static_cast<Byte>(text[at + 1]) & 0x3F));
    } else {
      return std::nullopt;
    }
    at += length;
  }
  return out;
}

std::string to_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '=');
  const auto digit = [](std::uint32_t bits, int shift) { return kDigits[(bits >> shift) & 63]; };
  const auto byte_at = [bytes](std::size_t i) { return std::uint32_t{static_cast<Byte>(bytes[i])}; };
  char* to = out.data();
  std::size_t at = 0;
  for (; at + 3 <= bytes.size(); at += 3) {
    const std::uint32_t bits = byte_at(at) << 16 | byte_at(at + 1) << 8 | byte_at(at + 2);
    *to++ = digit(bits, 18);
    *to++ = digit(bits, 12);
    *to++ = digit(bits, 6);
    *to++ = digit(bits, 0);
  }
  if (at < bytes.size()) {
    const bool two = bytes.size() - at == 2;
    const std::uint32_t bits = byte_at(at) << 16 | (two ? byte_at(at + 1) << 8 : 0);
    *to++ = digit(bits, 18);
    *to++ = digit(bits, 12);
    if (two) {
      *to++ = digit(bits, 6);
    }
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) {
    text.remove_suffix(1);
  }
  std::string out(text.size() * 3 / 4, '\0');
  char* to = out.data();
  std::uint32_t bits = 0;
  int pending = 0;   // bits not written yet
  Byte problem = 0;  // digits use six bits, so what is no digit shows in the seventh
  for (const char c : text) {
    const Byte value = kDigitValues[static_cast<Byte>(c)];
    problem |= value;
    bits = bits << 6 | (value & 63U);
    pending += 6;
    if (pending >= 8) {
      pending -= 8;
      *to++ = static_cast<char>(bits >> pending);
    }
  }
  const std::uint32_t unused = bits & ((1U << pending) - 1);
  if ((problem & 64) != 0 || unused != 0) {
    return std::nullopt;
  }
  return out;
}

}  // namespace rex
