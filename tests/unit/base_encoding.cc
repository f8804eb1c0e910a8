// What base/encoding.h promises about bytes and their texts.
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/encoding.h"

using namespace std::string_literals;

namespace {

/// RFC 3629 written a second time, as naively as possible: decode, then judge the number.
bool is_utf8_by_decoding(const std::string& bytes) {
  static constexpr std::uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    const int more = lead < 0x80 ? 0 : lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : lead >> 3 == 30 ? 3 : -1;
    if (more < 0 || i + static_cast<std::size_t>(more) >= bytes.size()) {
      return false;
    }
    std::uint32_t number = more == 0 ? lead : lead & (0x3FU >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(bytes[i + static_cast<std::size_t>(k)]);
      if (next >> 6 != 2) {
        return false;
      }
      number = number << 6 | (next & 0x3F);
    }
    if (number < smallest[more] || number > 0x10FFFF || (number >= 0xD800 && number <= 0xDFFF)) {
      return false;
    }
    i += static_cast<std::size_t>(more) + 1;
  }
  return true;
}

std::string encode(std::uint32_t n) {
  const auto c = [](std::uint32_t byte) { return static_cast<char>(byte); };
  if (n < 0x80)
    return {c(n)};
  if (n < 0x800)
    return {c(0xC0 | n >> 6), c(0x80 | (n & 63))};
  if (n < 0x10000)
    return {c(0xE0 | n >> 12), c(0x80 | (n >> 6 & 63)), c(0x80 | (n & 63))};
  return {c(0xF0 | n >> 18), c(0x80 | (n >> 12 & 63)), c(0x80 | (n >> 6 & 63)), c(0x80 | (n & 63))};
}

}  // namespace

TEST_CASE("every Unicode scalar value is UTF-8, and no surrogate is") {
  std::size_t wrong = 0;
  for (std::uint32_t n = 0; n < 0x110000; ++n) {
    const bool scalar = n < 0xD800 || n > 0xDFFF;
    const std::string text = encode(n);
    wrong += rex::is_utf8(text) != scalar;
    wrong += rex::utf8_sequence(text) != (scalar ? text.size() : 0);
    wrong += rex::first_invalid_utf8("12345678ab" + text) != 10 + (scalar ? text.size() : 0);
  }
  CHECK(wrong == 0);
}

TEST_CASE("the first byte that is not UTF-8 is named, wherever it stands") {
  struct {
    std::string bytes;
    std::size_t at;
  } const rows[] = {
      {"", 0},
      {"\x80", 0},
      {"a\xC0\x80", 1},
      {"\xC1\xBF", 0},
      {"\xE0\x9F\xBF", 0},
      {"é\xED\xA0\x80", 2},
      {"\xF0\x8F\xBF\xBF", 0},
      {"\xF4\x90\x80\x80", 0},
      {"\xF5\x80\x80\x80", 0},
      {"0123456789\xFF", 10},
      {"é\xC3", 2},
      {"01234567é\xE2\x82", 10},
      {"a\0b"s, 3},
      {"\xFE", 0},
  };
  for (const auto& row : rows) {
    CHECK(rex::first_invalid_utf8(row.bytes) == row.at);
    CHECK(rex::is_utf8(row.bytes) == (row.at == row.bytes.size()));
  }
}

TEST_CASE("random bytes are judged as a naive decoder judges them") {
  std::mt19937 random(1);
  // Few distinct bytes, so that well-formed sequences come up often.
  const std::string alphabet = "aZ\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5\xFF";
  std::size_t wrong = 0;
  for (int round = 0; round < 300000; ++round) {
    std::string bytes(random() % 12, 'a');
    for (char& c : bytes) {
      c = alphabet[random() % alphabet.size()];
    }
    wrong += rex::is_utf8(bytes) != is_utf8_by_decoding(bytes);
    const std::string repaired = rex::replace_invalid_utf8(bytes);
    wrong += !is_utf8_by_decoding(repaired);
    wrong += rex::is_utf8(bytes) && repaired != bytes;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a character cut at the end is told from bytes that are none") {
  struct {
    std::string bytes;
    std::size_t tail;
  } const rows[] = {
      {"", 0},
      {"a", 0},
      {"é", 0},
      {"\xC3", 1},
      {"a\xE2\x82", 2},
      {"\xF0\x9F\x98", 3},
      {"\xF0\x9F", 2},
      {"\xE0\x80", 0},
      {"\xED\xA0", 0},
      {"\x80\x80\x80", 0},
      {"\xF4\x90", 0},
      {"\xC0", 0},
      {"é\xC3\xA9\xA9", 0},
      {"\xF5", 0},
      {"\xE2\x82\xAC", 0},
  };
  for (const auto& row : rows) {
    CAPTURE(row.bytes.size());
    CHECK(rex::incomplete_utf8_tail(row.bytes) == row.tail);
  }
}

TEST_CASE("each part that can begin no character becomes one U+FFFD") {
  CHECK(rex::replace_invalid_utf8("a\xF0\x9F\x98z\x80\xC0\xAF\xE2\x82") == "a\uFFFDz\uFFFD\uFFFD\uFFFD\uFFFD");
  CHECK(rex::replace_invalid_utf8("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");
}

TEST_CASE("Latin-1 carries every byte there and back, and nothing else") {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(i);
  }
  const std::string text = rex::latin1_to_utf8(all);
  CHECK(rex::is_utf8(text));
  CHECK(rex::utf8_to_latin1(text) == all);
  CHECK_FALSE(rex::utf8_to_latin1("\u0100").has_value());
  CHECK_FALSE(rex::utf8_to_latin1("\xE9").has_value());
}

TEST_CASE("base64 is that of RFC 4648, section 10") {
  struct {
    std::string bytes, text;
  } const rows[] = {{"", ""},
                    {"f", "Zg=="},
                    {"fo", "Zm8="},
                    {"foo", "Zm9v"},
                    {"foob", "Zm9vYg=="},
                    {"fooba", "Zm9vYmE="},
                    {"foobar", "Zm9vYmFy"},
                    {"\xFB\xFF\0"s, "+/8A"}};
  for (const auto& row : rows) {
    CHECK(rex::to_base64(row.bytes) == row.text);
    CHECK(rex::from_base64(row.text) == row.bytes);
  }
}

TEST_CASE("base64 brings every byte string back") {
  std::mt19937 random(2);
  for (std::size_t size = 0; size < 600; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) {
      c = static_cast<char>(random());
    }
    REQUIRE(rex::from_base64(rex::to_base64(bytes)) == bytes);
  }
}

TEST_CASE("what is not exactly base64 is refused") {
  for (const std::string text : {"Z", "Zg", "Zg=", "Zg===", "=", "====", "Zg==Zg==", "Zm9v\n", " Zm9v", "Zm9-", "Zm_v",
                                 "Zh==", "Zm9=", "Z===", "=Zg=", "Zm\0v", "Zm9\x80"}) {
    CAPTURE(text);
    CHECK_FALSE(rex::from_base64(text).has_value());
  }
}
