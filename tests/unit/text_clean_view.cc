// What shell/clean_view.h promises: the text a person would finally see, whatever the chunks.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/encoding.h"
#include "shell/clean_view.h"

using namespace std::string_literals;

namespace {

using rex::shell::CleanView;
using rex::shell::EditLine;
using rex::shell::Offset;
using rex::shell::Piece;

/// What a view hands over, with the promises that hold for every piece checked on the way.
struct Seen {
  explicit Seen(std::string all, Offset from = 0) : bytes(std::move(all)), start(from), next(from) {}

  CleanView::Sink sink() {
    return [this](const Piece& piece) {
      whole = whole && piece.from == next && piece.to >= piece.from && piece.to - start <= bytes.size();
      if (piece.exact) {
        whole = whole && piece.text == std::string_view(bytes).substr(piece.from - start, piece.to - piece.from);
      }
      next = piece.to;
      text += piece.text;
      ends.push_back({piece.to, text.size()});
    };
  }

  std::string bytes;
  Offset start;
  Offset next;
  std::string text = {};
  bool whole = true;
  std::vector<std::pair<Offset, std::size_t>> ends = {};
};

std::string clean(const std::string& bytes) {
  Seen seen(bytes);
  CleanView view;
  view.feed(bytes, seen.sink());
  view.finish(seen.sink());
  CHECK(seen.whole);
  CHECK(seen.next == bytes.size());
  CHECK(rex::is_utf8(seen.text));
  return seen.text;
}

struct Row {
  const char* what;
  std::string bytes;
  std::string text;
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(clean(row.bytes) == row.text);
  }
}

std::string pick(std::mt19937& random, const std::vector<std::string>& words, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += words[random() % words.size()];
  }
  return out;
}

const std::vector<std::string>& soup_words() {
  static const std::vector<std::string> words = {"a",
                                                 "bc",
                                                 "hello world",
                                                 " ",
                                                 "   ",
                                                 "\t",
                                                 "\n",
                                                 "\n",
                                                 "\r",
                                                 "\r\n",
                                                 "\b",
                                                 "\x07",
                                                 "\x7f",
                                                 "\0"s,
                                                 "\x1b",
                                                 "\x1b[",
                                                 "\x1b[A",
                                                 "\x1b[2A",
                                                 "\x1b[B",
                                                 "\x1b[3C",
                                                 "\x1b[2D",
                                                 "\x1b[5G",
                                                 "\x1b[K",
                                                 "\x1b[1K",
                                                 "\x1b[2K",
                                                 "\x1b[J",
                                                 "\x1b[1J",
                                                 "\x1b[2J",
                                                 "\x1b[H",
                                                 "\x1b[3;4f",
                                                 "\x1b[2P",
                                                 "\x1b[3@",
                                                 "\x1b[2X",
                                                 "\x1b[1;31m",
                                                 "\x1b[m",
                                                 "\x1b]0;title\x07",
                                                 "\x1b]8;;http://x\x1b\\",
                                                 "\x1bPq#0\x1b\\",
                                                 "\x1b(0",
                                                 "\x1b"
                                                 "7",
                                                 "\x1b"
                                                 "8",
                                                 "\x1b[s",
                                                 "\x1b[u",
                                                 "\x1bM",
                                                 "\x1b"
                                                 "D",
                                                 "\x1b"
                                                 "E",
                                                 "\x1b[?1049h",
                                                 "\x1b[?1049l",
                                                 "\x1b[?25l",
                                                 "\x1b[9999C",
                                                 "\x1b[99A",
                                                 "\x1b"
                                                 "c",
                                                 "\xc3\xa9",
                                                 "e\xcc\x81",
                                                 "\xe6\xbc\xa2",
                                                 "\xf0\x9f\x98\x80",
                                                 "\xe2\x82",
                                                 "\xff",
                                                 "\xed\xa0\x80",
                                                 "\xc2\x9b"
                                                 "2K",
                                                 "\xc2\x85",
                                                 "\xc2",
                                                 "\x18"};
  return words;
}

}  // namespace

TEST_CASE("a line without control codes but tabs comes through byte for byte [C1]", "[C1]") {
  check({
      {"trailing blanks and tabs", "a  \n\tb\t \n\n \n", "a  \n\tb\t \n\n \n"},
      {"no line feed at the end", "prompt? ", "prompt? "},
      {"every character of Unicode that is none", "h\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80 e\xcc\x81\n",
       "h\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80 e\xcc\x81\n"},
      {"nothing", "", ""},
  });
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::string text = pick(
        random, {"a", "  ", "\t", "\n", "word", "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80", "~"}, random() % 300);
    REQUIRE(clean(text) == text);
  }
}

TEST_CASE("plain lines can be cut anywhere: their pieces are the bytes themselves [C1]", "[C1]") {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    bytes += "line " + std::to_string(i) + "\n";
  }
  CleanView view(5000);
  bool exact = true;
  const auto sink = [&](const Piece& piece) { exact = exact && piece.exact; };
  view.feed(bytes, sink);
  view.finish(sink);
  CHECK(exact);
  CHECK(view.next() == 5000 + bytes.size());
}

TEST_CASE("what a program wrote over is not seen [C8]", "[C8]") {
  check({
      {"CRLF", "one\r\ntwo\r\n", "one\ntwo\n"},
      {"carriage return", "12345\rab\n", "ab345\n"},
      {"backspace", "abc\b\bX\n", "aXc\n"},
      {"rubbing out", "abc\b \b\b \b\n", "a\n"},
      {"man page bold and underline", "N\bNA\bA _\bx\n", "NA x\n"},
      {"erase to the right", "hello\r\x1b[Kbye\n", "bye\n"},
      {"erase to the right in the middle", "hello\x1b[3D\x1b[K!\n", "he!\n"},
      {"erase to the left", "hello\x1b[2D\x1b[1Kxy\n", "   xy\n"},
      {"erase all", "hello\x1b[2K\rX\n", "X\n"},
      {"erase all keeps the column", "hello\x1b[2KX\n", "     X\n"},
      {"to the right", "a\x1b[3Cb\n", "a   b\n"},
      {"to a column", "abcdef\x1b[2GX\x1b[5`Y\n", "aXcdYf\n"},
      {"delete characters", "abcdef\x1b[2G\x1b[2P\n", "adef\n"},
      {"insert characters", "abcd\x1b[2G\x1b[2@XY\n", "aXYbcd\n"},
      {"erase characters", "abcdef\x1b[2G\x1b[3X\x1b[6G\n", "a   ef\n"},
      {"save and restore",
       "ab\x1b"
       "7cd\x1b"
       "8X\n",
       "abXd\n"},
      {"wiped with blanks", "downloading 50%\r                    \rdone\n", "done\n"},
      {"wiped to nothing", "working\r       \r\n", "\n"},
      {"a prompt after a wipe keeps its blank", "working\r\x1b[K? ", "? "},
      {"left of the start is the start", "a\b\b\b\x1b[9DX\n", "X\n"},
      {"an absurd move is no screenful of memory", "a\x1b[9999GX\n", "a" + std::string(1023, ' ') + "X\n"},
  });
}

TEST_CASE("a million rewrites of a line are one line [C8]", "[C8]") {
  std::string bytes;
  for (int i = 1; i <= 200'000; ++i) {
    bytes += "\r" + std::to_string(i);
  }
  CHECK(clean(bytes + "\n") == "200000\n");
  CHECK(clean(bytes) == "200000");
}

TEST_CASE("characters of two columns, marks and tabs keep their columns [C8]", "[C8]") {
  check({
      {"over the left half of a wide one",
       "\xe6\xbc\xa2"
       "b\rX\n",
       "X b\n"},
      {"over the right half of a wide one",
       "\xe6\xbc\xa2"
       "b\x1b[2GX\n",
       " Xb\n"},
      {"wide over narrow", "abc\r\xe6\xbc\xa2\n",
       "\xe6\xbc\xa2"
       "c\n"},
      {"an emoji is two columns",
       "\xf0\x9f\x98\x80"
       "b\x1b[3GX\n",
       "\xf0\x9f\x98\x80X\n"},
      {"a mark stays with its letter", "e\xcc\x81x\x1b[2GY\n", "e\xcc\x81Y\n"},
      {"a mark goes with its letter", "e\xcc\x81x\ra\n", "ax\n"},
      {"a mark written over", "ex\x1b[2G\xcc\x81\n", "e\xcc\x81x\n"},
      {"a tab that was only appended stays one", "\x1b[1ma\tb\x1b[m\n", "a\tb\n"},
      {"a tab under CRLF stays one", "\tcc -o x\r\n", "\tcc -o x\n"},
      {"a tab over text moves only", "abcdefghij\r\tX\n", "abcdefghXj\n"},
      {"a tab written into becomes blanks", "a\tb\x1b[4GX\n", "a  X    b\n"},
      {"columns go on after a tab", "a\tb\x1b[9GX\n", "a\tX\n"},
  });
}

TEST_CASE("what only dresses the text is dropped [C8]", "[C8]") {
  check({
      {"colours", "\x1b[1;38;5;9mred\x1b[0m \x1b[4:3mx\x1b[m\n", "red x\n"},
      {"grep --color", "\x1b[01;31m\x1b[Kfoo\x1b[m\x1b[Kbar  \n", "foobar  \n"},
      {"title, ended by BEL or ST",
       "\x1b]0;t\x07"
       "a\x1b]2;\xc3\xa9\x1b\\b\n",
       "ab\n"},
      {"hyperlink: its text stays", "\x1b]8;;http://x.y/\x1b\\link\x1b]8;;\x1b\\!\n", "link!\n"},
      {"DCS, APC, PM, SOS", "a\x1bPq~\n~\x1b\\b\x1b_x\x1b\\c\x1b^x\x1b\\d\x1bXx\x1b\\e\n", "abcde\n"},
      {"character sets and modes", "\x1b(Ba\x1b)0b\x1b[?25lc\x1b[?2004hd\x1b=\x1b[!p\n", "abcd\n"},
      {"other control codes",
       "a\0b\x07"
       "c\x7f"
       "d\x0e"
       "e\n"s,
       "abcde\n"},
      {"C1 codes as characters",
       "a\xc2\x9b"
       "1mb\xc2\x90q\x1b\\c\xc2\x84\n",
       "abc\n"},
      {"a stray introducer loses no line", "a\x1b]0;torn\nb\x1b[12\nc\x1b\nd\n", "a\nb\nc\nd\n"},
      {"an introducer in an introducer", "a\x1b[1\x1b[2mb\n", "ab\n"},
      {"cancelled",
       "a\x1b[1\x18"
       "b\n",
       "ab\n"},
  });
}

TEST_CASE("the alternate screen is left out, and said", "[C12]") {
  const std::string mode = GENERATE("1049", "1047", "47", "25;1049");
  const std::string bytes = "before \x1b[?" + mode + "hvim\n\x1b[2;3H\xc3\xa9~\x1b[?" + mode + "lafter\n";
  CHECK(clean(bytes) == "before after\n");
  Seen seen(bytes);
  CleanView view;
  view.feed(bytes, seen.sink());
  CHECK(view.alternate_bytes() == 4 + 6 + 3 + 4 + mode.size());
  CHECK(clean("x\n\x1b[?1049h never left\n") == "x\n");
}

TEST_CASE("rows that a program goes up to are seen once, as they stood last [C8]", "[C8]") {
  const std::string tqdm = "\n\rB  0%\x1b[A\rA  0%\n\rB 50%\x1b[A\rA 50%\n\rB100%\x1b[A\rA100%\n\rB100%\x1b[A\r\n\n";
  CHECK(clean(tqdm) == "\nA100%\nB100%\n");

  std::string docker = "latest: Pulling\naaa: Waiting\nbbb: Waiting\n";
  for (int i = 0; i <= 1000; ++i) {
    docker += "\x1b[2A\x1b[2K\raaa: " + std::to_string(i) + " kB\r\x1b[2B";
    docker += "\x1b[1A\x1b[2K\rbbb: " + std::to_string(i) + " kB\r\x1b[1B";
  }
  docker += "Digest: sha256:0\n\nDone\n";
  CHECK(clean(docker) ==
        "latest: Pulling\naaa: Waiting\nbbb: Waiting\naaa: 1000 kB\nbbb: 1000 kB\nDigest: sha256:0\n\nDone\n");

  std::string frames = "tasks\n";
  for (int i = 0; i <= 100; ++i) {
    frames += (i == 0 ? "" : "\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[G") + "one "s + std::to_string(i) + "\ntwo\n";
  }
  CHECK(clean(frames) == "tasks\none 0\ntwo\none 100\ntwo\n");

  std::string cleared = "tasks\n";
  for (int i = 0; i <= 100; ++i) {
    cleared += (i == 0 ? "" : "\x1b[2A\x1b[J") + "one "s + std::to_string(i) + "\ntwo\n";
  }
  CHECK(clean(cleared) == "tasks\none 0\ntwo\none 100\ntwo\n");
}

TEST_CASE("a block of rows comes out when its rows have scrolled by", "[C8]") {
  std::string bytes = "a\nb\n\x1b[2AX\x1b[2B\r";
  for (int i = 0; i < 100; ++i) {
    bytes += "line\n";
  }
  Seen seen(bytes);
  CleanView view;
  view.feed(bytes, seen.sink());
  CHECK(seen.next == bytes.size());
  std::string expected = "a\nb\nX\n";
  for (int i = 0; i < 100; ++i) {
    expected += "line\n";
  }
  CHECK(seen.text == expected);
}

TEST_CASE("text that is addressed to a row of the screen stands in a line of its own", "[C8]") {
  check({
      {"clear", "old\n\x1b[H\x1b[2J\x1b[3Jnew\n", "old\nnew\n"},
      {"in the middle of a line",
       "Setting up x\x1b"
       "7\x1b[50;0fProgress: [10%]\x1b"
       "8 ...\n",
       "Setting up x\nProgress: [10%]\n             ...\n"},
      {"a reset",
       "abc\x1b"
       "cdef\n",
       "abc\ndef\n"},
  });
}

TEST_CASE("what is no UTF-8 becomes U+FFFD, one for each maximal part, and is counted [C5][C7]", "[C5][C7]") {
  struct {
    std::string bytes;
    std::string text;
    std::uint64_t replaced;
  } const rows[] = {
      {"\xff\xfe\x80\n", "\uFFFD\uFFFD\uFFFD\n", 3},
      {"a\xed\xa0\x80z\n", "a\uFFFD\uFFFD\uFFFDz\n", 3},
      {"a\xf0\x9f\x92z\n", "a\uFFFDz\n", 1},
      {"a\xe2\x82", "a\uFFFD", 1},
      {"\x1b[ma\xe2\x82", "a\uFFFD", 1},
      {"\x1b[ma\xf0\x9f\x92z\xff\r\n", "a\uFFFDz\uFFFD\n", 2},
      {"a\xff\rb\n", "b\uFFFD\n", 1},
      {"caf\xe9\n", "caf\uFFFD\n", 1},
      {"\xc0\xaf\xe2\x28\xa1\n", "\uFFFD\uFFFD\uFFFD(\uFFFD\n", 4},
  };
  for (const auto& row : rows) {
    CHECK(clean(row.bytes) == row.text);
    CleanView view;
    view.feed(row.bytes, [](const Piece&) {});
    view.finish([](const Piece&) {});
    CHECK(view.replaced() == row.replaced);
  }
  std::mt19937 random(5);
  std::string noise;
  for (int i = 0; i < 300'000; ++i) {
    noise += static_cast<char>(random());
  }
  (void)clean(noise);  // checks that it is UTF-8
}

TEST_CASE("a character that comes byte by byte is never replaced [C6][S22]", "[C6][S22]") {
  const std::string bytes = GENERATE("\xf0\x9f\x98\x80"s, "\xe2\x82\xac\n"s, "\r\xf0\x9f\x98\x80x\n"s, "\xc3\xa9\r\n"s);
  Seen seen(bytes);
  CleanView view;
  for (const char c : bytes) {
    view.feed({&c, 1}, seen.sink());
  }
  view.finish(seen.sink());
  CHECK(seen.text == clean(bytes));
  CHECK(view.replaced() == 0);
  CHECK(seen.whole);
}

TEST_CASE("the text does not depend on how the bytes were cut [S22]", "[S22]") {
  const auto seed = static_cast<unsigned>(GENERATE(range(0, 400)));
  std::mt19937 random(seed);
  std::string bytes;
  if (seed % 4 == 0) {
    for (std::size_t i = random() % 3000; i > 0; --i) {
      bytes += static_cast<char>(random());
    }
  } else {
    bytes = pick(random, soup_words(), random() % 400);
  }
  Seen whole(bytes, 1000);
  CleanView at_once(1000);
  at_once.feed(bytes, whole.sink());
  at_once.finish(whole.sink());
  Seen pieces(bytes, 1000);
  CleanView cut(1000);
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = 1 + random() % (seed % 2 == 0 ? 3 : 100);
    cut.feed(std::string_view(bytes).substr(at, size), pieces.sink());
    at += std::min(size, bytes.size() - at);
    REQUIRE(cut.next() == 1000 + at);
  }
  cut.finish(pieces.sink());
  REQUIRE(pieces.text == whole.text);
  REQUIRE(whole.whole);
  REQUIRE(pieces.whole);
  REQUIRE(cut.replaced() == at_once.replaced());
  REQUIRE(cut.alternate_bytes() == at_once.alternate_bytes());
  REQUIRE(rex::is_utf8(whole.text));
}

TEST_CASE("text before a piece's end is the text of the bytes before it [C1]", "[C1]") {
  const auto seed = static_cast<unsigned>(GENERATE(range(0, 60)));
  std::mt19937 random(seed);
  const std::string bytes = pick(random, soup_words(), 150);
  Seen seen(bytes);
  CleanView view;
  view.feed(bytes, seen.sink());
  view.finish(seen.sink());
  for (const auto& [to, size] : seen.ends) {
    REQUIRE(clean(bytes.substr(0, to)) == seen.text.substr(0, size));
  }
}

TEST_CASE("a line of any length takes a bounded memory and loses nothing [C1][C2]", "[C1][C2]") {
  const std::string start = GENERATE("", "\x1b[m", "x\x1b[C\x1b[D");
  const std::string text = GENERATE("a", "\xe6\xbc\xa2", "\xff", "\t");
  CleanView view;
  std::string seen;
  std::size_t widest = 0;
  const auto sink = [&](const Piece& piece) {
    seen += piece.text;
    widest = std::max(widest, piece.text.size());
  };
  view.feed(start, sink);
  std::string chunk;
  while (chunk.size() < 50'000) {
    chunk += text;
  }
  std::string expected = start.starts_with('x') ? "x" : "";
  for (int i = 0; i < 40; ++i) {
    view.feed(chunk, sink);
    expected += chunk;
  }
  CHECK(expected.size() >= 40 * 50'000);
  view.finish(sink);
  CHECK((seen == rex::replace_invalid_utf8(expected)));
  CHECK(widest <= 4 * EditLine::kMaxColumns);
}
