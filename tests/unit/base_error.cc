// What base/error.h promises about messages: readable for people, harmless for terminals, valid for JSON.
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>

#include "base/encoding.h"
#include "base/error.h"

using namespace std::string_literals;

TEST_CASE("text in any language stays readable in a message") {
  for (const std::string text : {"plain", "Grüße, Жизнь, 日本語, 😀", "regex \\d+\\.x", "C:\\xylophone", ""}) {
    CHECK(rex::printable(text) == text);
  }
}

TEST_CASE("what could harm a terminal or a JSON string is written as hex") {
  struct {
    std::string text, shown;
  } const rows[] = {
      {"a\x1b[2Jb", "a\\x1b[2Jb"},
      {"a\nb\tc\rd", "a\\x0ab\\x09c\\x0dd"},
      {"nul\0!"s, "nul\\x00!"},
      {"\x7f", "\\x7f"},
      {"c1 \xc2\x9b 31m", "c1 \\xc2\\x9b 31m"},
      {"nbsp \xc2\xa0", "nbsp \xc2\xa0"},
      {"latin \xe9t\xe9", "latin \\xe9t\\xe9"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"\xf0\x9f\x98", "\\xf0\\x9f\\x98"},
      {"already \\x1b", "already \\x5cx1b"},
      {"\\\xff", "\\\\xff"},
  };
  for (const auto& row : rows) {
    CHECK(rex::printable(row.text) == row.shown);
  }
}

TEST_CASE("a long text is cut between characters, and its size is told") {
  const std::string text = "aé€😀z";  // 1 + 2 + 3 + 4 + 1 bytes
  const std::string shown[] = {"", "a", "a", "aé", "aé", "aé", "aé€", "aé€", "aé€", "aé€", "aé€😀"};
  for (std::size_t most = 0; most < text.size(); ++most) {
    CHECK(rex::printable(text, most) == shown[most] + "… (11 bytes)");
  }
  CHECK(rex::printable(text, text.size()) == text);
}

TEST_CASE("whatever goes in, valid UTF-8 comes out, and different texts stay different") {
  std::mt19937 random(3);
  const std::string alphabet = "ax1\\\x1b\x80\x9b\xa9\xc2\xc3\xe2\xed\xf0\xff";
  std::size_t bad = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string text(random() % 10, 'a');
    for (char& c : text) {
      c = alphabet[random() % alphabet.size()];
    }
    const std::string shown = rex::printable(text);
    bad += !rex::is_utf8(shown);
    std::string back;  // undo \xHH: nothing may have been lost
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const bool escape = shown.compare(i, 2, "\\x") == 0 && i + 4 <= shown.size() &&
                          shown.find_first_not_of("0123456789abcdef", i + 2) >= i + 4;
      if (escape) {
        back += static_cast<char>(std::stoi(shown.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        back += shown[i];
      }
    }
    bad += back != text;
  }
  CHECK(bad == 0);
}
