// What shell/pattern.h promises: the first match, at its raw offsets, whatever the chunks, at a linear cost.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "shell/pattern.h"

using namespace std::string_literals;

namespace {

using rex::shell::Match;
using rex::shell::Offset;
using rex::shell::PatternSet;
using rex::shell::Scanner;

constexpr Offset kFrom = 1000;

std::shared_ptr<const PatternSet> compile(const std::vector<std::string>& patterns) {
  return std::make_shared<const PatternSet>(patterns, "expect");
}

std::optional<Match> scan(const std::vector<std::string>& patterns, const std::string& bytes, std::size_t chunk,
                          bool strip_ansi = true) {
  Scanner scanner(compile(patterns), kFrom, strip_ansi);
  for (std::size_t at = 0; at < bytes.size(); at += chunk) {
    if (auto match = scanner.feed(std::string_view(bytes).substr(at, chunk), kFrom + at)) {
      return match;
    }
  }
  return scanner.settle();
}

std::string refusal(const std::vector<std::string>& patterns) {
  try {
    (void)PatternSet(patterns, "expect");
    return "";
  } catch (const rex::Error& error) {
    CHECK(error.fault() == rex::Fault::InvalidParams);
    return error.message();
  }
}

}  // namespace

TEST_CASE("a text that comes in pieces and in colours matches once, at its raw offsets [C18]", "[C18]") {
  const std::size_t chunk = GENERATE(1, 2, 3, 5, 100);
  const std::string bytes =
      "\x1b[2mLis\x1b[1mtening on\x1b[0m http://x:\x1b]0;t\x07"
      "8080\x1b[m\nmore\n";
  Scanner scanner(compile({"nothing", "Listening on .*8080"}), kFrom);
  std::vector<Match> matches;
  for (std::size_t at = 0; at < bytes.size(); at += chunk) {
    if (auto match = scanner.feed(std::string_view(bytes).substr(at, chunk), kFrom + at)) {
      matches.push_back(*match);
    }
  }
  while (auto match = scanner.settle()) {
    matches.push_back(*match);
  }
  REQUIRE(matches.size() == 1);
  CHECK(matches[0].index == 1);
  CHECK(matches[0].text == "Listening on http://x:8080");
  CHECK(matches[0].from == kFrom + 4);
  CHECK(matches[0].to == kFrom + bytes.find("8080") + 4);
  CHECK(scanner.next() == kFrom + bytes.size());
}

TEST_CASE("escape sequences are text for one who asks for them [C18]", "[C18]") {
  CHECK(!scan({"ab"}, "a\x1b[1mb", 1, false));
  const auto match = scan({"\\x1b\\[1m"}, "a\x1b[1mb", 1, false);
  REQUIRE(match);
  CHECK(match->from == kFrom + 1);
  CHECK(match->to == kFrom + 5);
}

TEST_CASE("the match that starts first wins, then the lowest index [C18]", "[C18]") {
  struct {
    std::vector<std::string> patterns;
    std::string bytes;
    std::size_t index;
    std::string text;
  } const rows[] = {
      {{"b", "a"}, "xab", 1, "a"},      {{"ab", "abc"}, "abc", 0, "ab"}, {{"abc", "ab"}, "abc", 0, "abc"},
      {{"c$", "^b"}, "abc\nb", 0, "c"}, {{"zz", "b|c"}, "abc", 1, "b"},  {{"(?i)ERROR"}, "an Error", 0, "Error"},
  };
  for (const auto& row : rows) {
    const auto match = scan(row.patterns, row.bytes, 100);
    REQUIRE(match);
    CHECK(match->index == row.index);
    CHECK(match->text == row.text);
    CHECK(match->from == kFrom + row.bytes.find(row.text));
  }
}

TEST_CASE("anchors stand at line boundaries, and the end at what has been written so far [C18]", "[C18]") {
  const std::size_t chunk = GENERATE(1, 100);
  CHECK(scan({"^b$"}, "a\nb\nc", chunk));
  CHECK(!scan({"^b"}, "ab\ncb", chunk));
  CHECK(scan({"^\\$ $"}, "text\n$ ", chunk));
  CHECK(!scan({"a.b"}, "a\nb", chunk));
  CHECK(scan({"(?s)a.b"}, "a\nb", chunk));
  CHECK(!scan({"\\Ab"}, "a\nb", chunk));
  Scanner scanner(compile({"done$"}), 0);
  CHECK(scanner.feed("not done", 0));
  CHECK(!scanner.feed(" yet", 8));
}

TEST_CASE("output that is no UTF-8 does no harm to what is [C5][C7]", "[C5][C7]") {
  const std::string noise = "\xff\xfe\x80 caf\xc3\xa9 \xed\xa0\x80 ";
  CHECK(scan({"caf\xc3\xa9"}, noise, 1).value().text == "caf\xc3\xa9");
  CHECK(scan({"caf. "}, noise, 1).value().text == "caf\xc3\xa9 ");
  CHECK(scan({"\\C caf"}, noise, 1).value().text == "\x80 caf");
  CHECK(!scan({"^.*caf"}, "\xff caf", 1));
}

TEST_CASE("after a match the scanner goes on behind it [C18]", "[C18]") {
  const std::string bytes = "a1 a2\na3 \x1b[1ma\x1b[m4 a5";
  Scanner scanner(compile({"a\\d"}), kFrom);
  std::string seen;
  std::vector<Offset> from;
  for (auto match = scanner.feed(bytes, kFrom); match; match = scanner.settle()) {
    seen += match->text;
    from.push_back(match->from - kFrom);
  }
  CHECK(seen == "a1a2a3a4a5");
  CHECK(from == std::vector<Offset>{0, 3, 6, 13, bytes.size() - 2});
}

TEST_CASE("a pattern that can be empty matches at once, and the scanner does not stand still", "[C18]") {
  Scanner scanner(compile({"x*"}), kFrom);
  const auto match = scanner.settle();
  REQUIRE(match);
  CHECK(match->text.empty());
  CHECK(match->from == kFrom);
  CHECK(match->to == kFrom);
  CHECK(!scanner.settle());
  int count = 0;
  for (auto next = scanner.feed("abc", kFrom); next; next = scanner.settle()) {
    REQUIRE(++count < 10);
  }
  CHECK(count > 0);
}

TEST_CASE("nothing matches across bytes that the journal has lost, and none is taken twice [C17]", "[C17]") {
  Scanner lost(compile({"ab"}), 0);
  CHECK(!lost.feed("a", 0));
  CHECK(!lost.feed("b", 5));
  CHECK(lost.next() == 6);
  Scanner again(compile({"aab"}), 0);
  CHECK(!again.feed("xa", 0));
  CHECK(!again.feed("ab", 1));
  CHECK(again.next() == 3);
}

TEST_CASE("a match may span 64 KiB of lines in chunks of any size [C18]", "[C18]") {
  const std::size_t chunk = GENERATE(100, 4096, 65536, 1'000'000);
  const std::string bytes =
      std::string(300'000, '\n') + "BEGIN" + std::string(65'000, '\n') + "END" + std::string(100, 'x');
  const auto match = scan({"nothing", "BEGIN[^E]*END"}, bytes, chunk);
  REQUIRE(match);
  CHECK(match->index == 1);
  CHECK(match->from == kFrom + 300'000);
  CHECK(match->to == kFrom + 365'008);
}

TEST_CASE("a long unfinished line is searched whole when the program falls silent [C18]", "[C18]") {
  Scanner scanner(compile({"^BEGIN.*END"}), 0);
  std::string bytes = "first\nBEGIN" + std::string(50'000, 'x') + "END";
  bool found = false;
  for (std::size_t at = 0; at < bytes.size(); at += 1000) {
    found = found || scanner.feed(std::string_view(bytes).substr(at, 1000), at);
  }
  const auto match = scanner.settle();
  CHECK((found || match));
}

TEST_CASE("the match does not depend on how the bytes were cut [C18]", "[C18]") {
  const auto seed = static_cast<unsigned>(GENERATE(range(0, 300)));
  std::mt19937 random(seed);
  const std::vector<std::string> words = {"a",        "b",    "foo", " ", "\n", "\x1b[1m", "\x1b]0;t\x07",
                                          "\xc3\xa9", "\xff", "bar"};
  const std::vector<std::string> patterns = {"foo a", "bar\\s+foo\\x{e9}", "a[^a]{2}b\xc3\xa9", "b b \n",
                                             "(?s)ba.r.?foo."};
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    bytes += words[random() % words.size()];
  }
  const std::vector<std::string> chosen = {patterns[seed % patterns.size()]};
  const auto whole = scan(chosen, bytes, bytes.size());
  const auto cut = scan(chosen, bytes, 1 + random() % 20);
  REQUIRE(whole.has_value() == cut.has_value());
  if (whole) {
    REQUIRE(whole->from == cut->from);
    REQUIRE(whole->to == cut->to);
    REQUIRE(whole->text == cut->text);
  }
}

TEST_CASE("a flood without a match costs the same per byte, however it is cut [C2]", "[C2]") {
  const std::string pattern = GENERATE("never so", "^[a-z ]+never$", "(?s)some.*never", "[^a]never\\s*$");
  Scanner scanner(compile({pattern}), 0);
  std::string chunk;
  while (chunk.size() < 4096) {
    chunk += "some line of output\n";
  }
  for (Offset at = 0; at < (8 << 20); at += chunk.size()) {
    REQUIRE(!scanner.feed(chunk, at));
  }
}

TEST_CASE("a pattern that is none is refused by its place, in words of its own [C18]", "[C18]") {
  CHECK(refusal({"ok", "a("}).find("expect[1]") != std::string::npos);
  CHECK(refusal({"ok", "a("}).find("missing )") != std::string::npos);
  CHECK(refusal({"a("}).find("(?m)") == std::string::npos);
  CHECK(refusal({"(?=look)"}).find("expect[0]") != std::string::npos);
  CHECK(refusal({"\xff"}).find("UTF-8") != std::string::npos);
  CHECK(refusal({std::string(4097, 'a')}).find("4096") != std::string::npos);
  CHECK(refusal({"(\\pL{1000}){100}"}).find("expect[0]") != std::string::npos);
  CHECK(refusal(std::vector<std::string>(65, "a")).find("64") != std::string::npos);
  CHECK(refusal(std::vector<std::string>(64, "a")).empty());
  try {
    (void)PatternSet::one("[", "any[1].match");
    FAIL("accepted");
  } catch (const rex::Error& error) {
    CHECK(error.message().find("any[1].match") != std::string::npos);
  }
}

TEST_CASE("patterns keep their context: what stands before a search is not forgotten [C18]", "[C18]") {
  Scanner scanner(compile({"\\bfoo", "\\Bbar", "^baz"}), 0);
  CHECK(!scanner.feed("x", 0));
  CHECK(!scanner.feed("foo", 1));
  CHECK(!scanner.feed("baz", 4));
  const auto match = scanner.feed("bar", 7);
  REQUIRE(match);
  CHECK(match->index == 1);
}
