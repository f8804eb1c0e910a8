// What shell/output_text.h promises: head, tail and an exact account of what lies between.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <random>
#include <string>

#include "base/encoding.h"
#include "shell/output_text.h"

using namespace std::string_literals;

namespace {

using rex::shell::CleanView;
using rex::shell::CollectedOutput;
using rex::shell::Offset;
using rex::shell::OutputText;
using rex::shell::Piece;
using rex::shell::View;

constexpr Offset kFrom = 1024;

CollectedOutput collect(View view, std::size_t max_bytes, const std::string& bytes, std::size_t chunk = 1 << 20) {
  OutputText text(view, max_bytes, kFrom);
  for (std::size_t at = 0; at < bytes.size(); at += chunk) {
    text.feed(std::string_view(bytes).substr(at, chunk));
  }
  return text.finish();
}

std::string viewed(View view, const std::string& bytes) {
  if (view == View::raw) {
    return bytes;
  }
  std::string text;
  CleanView clean;
  const auto sink = [&text](const Piece& piece) { text += piece.text; };
  clean.feed(bytes, sink);
  clean.finish(sink);
  return text;
}

/// The one promise: output is the text before `from` and the text from `to` on, and the sizes add up.
void check_account(View view, std::size_t max_bytes, const std::string& bytes, const CollectedOutput& result) {
  REQUIRE(result.from == kFrom);
  REQUIRE(result.next == kFrom + bytes.size());
  REQUIRE(result.total_bytes == bytes.size());
  const std::string text = viewed(view, bytes);
  const std::string output = result.base64 ? *rex::from_base64(result.output) : result.output;
  REQUIRE(output.size() <= max_bytes);
  if (!result.omitted) {
    REQUIRE(output == text);
    return;
  }
  REQUIRE(text.size() > max_bytes);
  const std::size_t from = result.omitted->from - kFrom;
  const std::size_t to = result.omitted->to - kFrom;
  REQUIRE(from <= to);
  REQUIRE(to <= bytes.size());
  const std::string head = viewed(view, bytes.substr(0, from));
  REQUIRE(output == head + viewed(view, bytes.substr(to)));
  REQUIRE(result.omitted->at == head.size());
  REQUIRE(output.size() + result.omitted->bytes == text.size());
}

}  // namespace

TEST_CASE("output within the bound is whole, whatever the chunks [C1]", "[C1]") {
  const View view = GENERATE(View::clean, View::raw);
  const std::size_t chunk = GENERATE(1, 3, 1000);
  const std::string bytes = "hello\n\xe6\xbc\xa2\xe5\xad\x97\tworld  \n";
  const CollectedOutput result = collect(view, bytes.size(), bytes, chunk);
  CHECK(result.output == bytes);
  CHECK(!result.omitted);
  CHECK(!result.base64);
  check_account(view, bytes.size(), bytes, result);
}

TEST_CASE("one long line keeps its head and its tail, with exact counters [C1]", "[C1]") {
  const View view = GENERATE(View::clean, View::raw);
  std::string bytes = std::string(1'000'000, 'a') + "\n";
  bytes[0] = '<';
  bytes[999'999] = '>';
  const CollectedOutput result = collect(view, OutputText::kDefaultMaxBytes, bytes, GENERATE(4096, 100'000, 2'000'000));
  REQUIRE(result.omitted);
  CHECK(result.output == "<" + std::string(32767, 'a') + std::string(32766, 'a') + ">\n");
  CHECK(result.omitted->from == kFrom + 32768);
  CHECK(result.omitted->to == kFrom + 1'000'001 - 32768);
  CHECK(result.omitted->bytes == 1'000'001 - 65536);
  CHECK(result.total_bytes == 1'000'001);
}

TEST_CASE("a bound of zero keeps nothing and counts everything [C1]", "[C1]") {
  const View view = GENERATE(View::clean, View::raw);
  const std::string bytes = "some\r\nlines\n";
  const CollectedOutput result = collect(view, 0, bytes);
  CHECK(result.output.empty());
  REQUIRE(result.omitted);
  CHECK(result.omitted->from == kFrom);
  CHECK(result.omitted->to == kFrom + bytes.size());
  check_account(view, 0, bytes, result);
  CHECK(!collect(view, 0, "").omitted);
}

TEST_CASE("no cut tears a character, and none forces base64 [C6][S22]", "[C6][S22]") {
  const View view = GENERATE(View::clean, View::raw);
  const std::string character = GENERATE("\xc3\xa9"s, "\xe6\xbc\xa2"s, "\xf0\x9f\x98\x80"s, "a\xf0\x9f\x98\x80"s);
  const std::size_t chunk = GENERATE(1, 2, 1000);
  std::string bytes;
  while (bytes.size() < 300) {
    bytes += character;
  }
  for (std::size_t max_bytes = 1; max_bytes < 60; ++max_bytes) {
    const CollectedOutput result = collect(view, max_bytes, bytes, chunk);
    CHECK(!result.base64);
    CHECK(rex::is_utf8(result.output));
    CHECK(result.output.find("\uFFFD") == std::string::npos);
    CHECK(result.output.size() + 2 * 3 + 1 >= max_bytes);
    check_account(view, max_bytes, bytes, result);
  }
}

TEST_CASE("bytes that are no text come as base64 in the raw view, as U+FFFD in the clean one [C5][C7]", "[C5][C7]") {
  const std::string bytes = "\xff\xfe\x80\0ELF"s;
  const CollectedOutput raw = collect(View::raw, 100, bytes);
  CHECK(raw.base64);
  CHECK(raw.output == rex::to_base64(bytes));
  CHECK(raw.replaced == 0);
  const CollectedOutput clean = collect(View::clean, 100, bytes);
  CHECK(!clean.base64);
  CHECK(clean.output ==
        "\uFFFD\uFFFD\uFFFD"
        "ELF");
  CHECK(clean.replaced == 3);
}

TEST_CASE("what is omitted can be read from the journal, in every view and for any bytes [C1][C5]", "[C1][C5]") {
  const auto seed = static_cast<unsigned>(GENERATE(range(0, 300)));
  std::mt19937 random(seed);
  const View view = seed % 2 == 0 ? View::clean : View::raw;
  const std::vector<std::string> words = {"word ",
                                          "\n",
                                          "a\tb",
                                          "\r\n",
                                          "\x1b[1mbold\x1b[m",
                                          "\rover",
                                          "\xc3\xa9",
                                          "\xf0\x9f\x98\x80",
                                          "\n\n",
                                          "long long long long text",
                                          seed % 3 == 0 ? "\xff" : "x"};
  std::string bytes;
  for (std::size_t i = random() % 2000; i > 0; --i) {
    bytes += words[random() % words.size()];
  }
  const std::size_t max_bytes = random() % 3 == 0 ? random() % 100 : random() % 4000;
  const CollectedOutput result = collect(view, max_bytes, bytes, 1 + random() % 500);
  check_account(view, max_bytes, bytes, result);
}

TEST_CASE("the amount of output does not matter [C2]", "[C2]") {
  const View view = GENERATE(View::clean, View::raw);
  OutputText text(view, 1000, kFrom);
  const std::string chunk = std::string(60'000, 'x') + (GENERATE(false, true) ? "\r\n" : "y");
  for (int i = 0; i < 2616; ++i) {  // 157 MB
    text.feed(chunk);
  }
  CHECK(text.next() == kFrom + 2616 * chunk.size());
  const CollectedOutput result = text.finish();
  CHECK(result.total_bytes == 2616 * chunk.size());
  REQUIRE(result.omitted);
  CHECK(result.output.size() <= 1000);
}

TEST_CASE("the alternate screen is counted in the result", "[C12]") {
  const CollectedOutput result = collect(View::clean, 100, "a\x1b[?1049hvim\x1b[?1049lb\n");
  CHECK(result.output == "ab\n");
  CHECK(result.alternate_bytes == 11);
}
