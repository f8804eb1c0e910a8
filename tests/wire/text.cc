// What travels as text, and how long that is at most.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "methods/to_wire.h"

using rex::methods::travels_as_text;

namespace {

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string all;
  while (all.size() + text.size() <= bytes) {
    all += text;
  }
  return all;
}

}  // namespace

TEST_CASE("Little travels as text as long as it is UTF-8 without too many controls") {
  CHECK(travels_as_text(""));
  CHECK(travels_as_text("\n\n\"\\\n"));
  CHECK(travels_as_text("12345678\x01"));
  CHECK_FALSE(travels_as_text("\x01\x01"));
  CHECK_FALSE(travels_as_text("\xff"));
}

TEST_CASE("Much travels as text where that is no longer than base64") {
  constexpr std::size_t most = 8u << 20;
  for (const char* text : {"x", "a line of a file\n", "\xc3\xbc", "{\"name\": 12345, \"x\": 12345}\n"}) {
    CHECK(travels_as_text(repeated(text, most)));
  }
  for (const char* text : {"\n", "\"\n", "x\n", "\\", "\t", "1234567\x01"}) {
    CHECK_FALSE(travels_as_text(repeated(text, most)));
    CHECK(travels_as_text(repeated(text, 4096)));
  }
}
