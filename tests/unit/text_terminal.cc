// What shell/terminal_scan.h, terminal_answers.h, terminal_marks.h and keys.h promise: what output does to a terminal,
// what is answered, where line feeds want a carriage return, and what keys send.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "shell/keys.h"
#include "shell/terminal_answers.h"
#include "shell/terminal_marks.h"
#include "shell/terminal_scan.h"

using namespace rex::shell;
using namespace std::string_literals;

namespace {

constexpr WindowSize kSize{24, 80};

/// Everything that is answered to `output`, fed in pieces of `chunk`, with the cursor in row 4, column 9.
std::string answers(const std::string& output, std::size_t chunk = 1024) {
  TerminalScan scan;
  std::string said;
  for (std::size_t at = 0; at < output.size(); at += chunk) {
    for (const TerminalQuery& query : scan.feed(std::string_view(output).substr(at, chunk), kSize.rows)) {
      said += answer_to(query, scan, kSize, {4, 9});
    }
  }
  return said;
}

TerminalScan scanned(const std::string& output) {
  TerminalScan scan;
  scan.feed(output, kSize.rows);
  return scan;
}

std::string refusal(const std::string& key) {
  try {
    return "sent " + key_bytes(key, {}, "keys[0]");
  } catch (const rex::Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("A program that asks its terminal is told numbers of ours, however its question comes in pieces") {
  const std::pair<std::string, std::string> table[] = {
      {"\033[c", "\033[?1;2c"},
      {"\033[0c", "\033[?1;2c"},
      {"\033Z", "\033[?1;2c"},
      {"\033[>c", "\033[>0;100;0c"},
      {"\033[5n", "\033[0n"},
      {"\033[6n", "\033[5;10R"},
      {"\033[?6n", "\033[?5;10R"},
      {"\033[18t", "\033[8;24;80t"},
      {"\033[4$p", "\033[4;0$y"},
      {"\033[?25$p", "\033[?25;1$y"},
      {"\033[?25l\033[?25$p", "\033[?25;2$y"},
      {"\033[?2004h\033[?2004$p", "\033[?2004;1$y"},
      {"\033[?31337$p", "\033[?31337;0$y"},
      {"\033[>q", "\033P>|rex-rpc\033\\"},
      {"\033P$qm\033\\", "\033P0$r\033\\"},
      {"\033P+q544e\033\\", "\033P0+r\033\\"},
      {"\033]10;?\007", "\033]10;rgb:ffff/ffff/ffff\007"},
      {"\033]11;?\033\\", "\033]11;rgb:0000/0000/0000\033\\"},
      {"text\033[31m\033[6nmore\033[5n", "\033[5;10R\033[0n"},
  };
  const std::size_t chunk = GENERATE(1, 2, 3, 100);
  for (const auto& [asked, said] : table) {
    CAPTURE(asked, chunk);
    CHECK(answers(asked, chunk) == said);
  }
}

TEST_CASE("[J6] nothing a program chose is ever typed back, and what could be is not answered") {
  const std::string table[] = {
      "\033[21t",                         // the title
      "\033]2;rm -rf /\r\007\033[21t",    // put there before
      "\033]52;c;?\007",                  // the clipboard
      "\033[1;1;1;1;1;1*y",               // the screen's checksum
      "\033]4;1;?\007",                   // the palette
      "\033]50;?\007",                    // the font
      "\033[?15n\033[?25n\033[?26n",      // printer, keys, keyboard
      "\033[x",                           // parameters of a line
      "\005",                             // answerback
      "\033[?1;2c\033[5;10R\033[0n",      // answers, echoed
      "\033[?25;1$y\033P0$r\033\\",       // likewise
      "\033]11;rgb:0000/0000/0000\033\\"  // likewise
  };
  for (const std::string& asked : table) {
    CAPTURE(asked);
    CHECK(answers(asked).empty());
  }
  CHECK(answers("\033P$q\"; rm -rf /\r\033\\") == "\033P0$r\033\\");
  std::string flood;
  for (int i = 0; i < 10'000; ++i) {
    flood += "\033[5n";
  }
  CHECK(answers(flood, flood.size()).size() == TerminalScan::kMaxQueries * 4);
}

TEST_CASE("Modes are known as the output left them") {
  CHECK(scanned("\033[?1h").application_cursor());
  CHECK_FALSE(scanned("\033[?1h\033[?1l").application_cursor());
  CHECK_FALSE(scanned("\033[?1h\033c").application_cursor());
  CHECK_FALSE(scanned("\033[?1;2004h\033[!p").application_cursor());
  CHECK(scanned("\033=").application_keypad());
  CHECK_FALSE(scanned("\033=\033>").application_keypad());
  CHECK(scanned("\033[?1049h").alternate());
  CHECK(scanned("\033[?1049h\033[?47h").alternate());
  CHECK_FALSE(scanned("\033[?1049h\033[?1047l").alternate());
  CHECK(scanned("\033[3;10r").unusual());
  CHECK_FALSE(scanned("\033[3;10r\033[r").unusual());
  CHECK_FALSE(scanned("\033[1;24r").unusual());
  CHECK(scanned("\033(0").unusual());
  CHECK_FALSE(scanned("\033(0\033(B").unusual());
  CHECK(scanned("\033[?7l").unusual());
}

TEST_CASE("Text and what stays in its line leave the last lines the whole of the screen") {
  for (const std::string stays :
       {"\033[1;31m", "\033[K", "\033[5G", "\033]2;title\007", "\033[?25l", "\033[?2004h", "\033[6n"}) {
    CAPTURE(stays);
    CHECK(scanned("abc" + stays).drawn() == 0);
  }
  for (const std::string draws :
       {"\033[H", "\033[2J", "\033[A", "\033[2;3H", "\0337", "\033M", "\033[?1049h", "\033[2;5r", "\033c"}) {
    CAPTURE(draws);
    CHECK(scanned("abc" + draws + "def").drawn() == 3 + draws.size());
  }
}

TEST_CASE("A title is text, and a bell is told once") {
  TerminalScan scan;
  scan.feed("\033]2;a\xC3\xA4\033\\x", 24);
  CHECK(scan.title() == "aä");
  CHECK(scan.take_title_change());
  CHECK_FALSE(scan.take_title_change());
  CHECK_FALSE(scan.take_bell());
  scan.feed(
      "\033]0;\xFF\x7F\xC2\x9B"
      "31m\007\007\007",
      24);
  CHECK(scan.title() ==
        "\xEF\xBF\xBD"
        "31m");
  CHECK(scan.take_bell());
  CHECK_FALSE(scan.take_bell());
  scan.feed("\033]2;" + std::string(1 << 20, 'x') + "\007", 24);
  CHECK(scan.title().size() <= TerminalScan::kMaxString);
}

TEST_CASE("[C11] what a program left in force is taken back, and a real terminal is told the same") {
  CHECK_FALSE(scanned("\033[31m\033]2;t\007text").unrestored());
  TerminalScan scan = scanned("\033[?1049h\033[?25l\033[?1000;1006h\033[?2004h\033[2;9r\033(0\033[?1h\033=\033[?7l");
  CHECK(scan.unrestored());
  const std::string told = scan.restore();
  CHECK_FALSE(scan.unrestored());
  const TerminalScan after =
      scanned("\033[?1049h\033[?25l\033[?1000;1006h\033[?2004h\033[2;9r\033(0\033[?1h\033=\033[?7l" + told);
  CHECK_FALSE(after.unrestored());
  CHECK(told.find("\033[?1049l") != std::string::npos);
  CHECK(scanned("\033[4h").unrestored());
}

TEST_CASE("A carriage return comes before each line feed that came without, and nowhere else") {
  TerminalMarks marks(0, true, kSize);
  marks.set_bare(10, false);
  marks.set_bare(14, true);
  const std::string bytes =
      "ab\r\nc\n\r\nd\n"
      "e\n\nf"
      "g\nh\n";
  const std::string shown =
      "ab\r\nc\r\n\r\nd\r\n"
      "e\n\nf"
      "g\r\nh\r\n";
  REQUIRE(bytes.size() == 18);
  for (std::size_t chunk = 1; chunk <= bytes.size(); ++chunk) {
    CAPTURE(chunk);
    TerminalNewlines newlines(marks, 0);
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += chunk) {
      newlines.take(std::string_view(bytes).substr(at, chunk), out);
    }
    CHECK(out == shown);
    CHECK(newlines.next() == bytes.size());
  }
  TerminalNewlines middle(marks, 12);
  std::string out;
  middle.take(std::string_view(bytes).substr(12), out);
  CHECK(out ==
        "\nf"
        "g\r\nh\r\n");
}

TEST_CASE("What sets a terminal right is told once, at its place, also when it comes behind the last byte") {
  TerminalMarks marks(0, true, kSize);
  TerminalNewlines newlines(marks, 0);
  std::string out;
  newlines.take("ab\n", out);
  marks.restore(3, "<R>");
  newlines.take("", out);
  newlines.take("c", out);
  marks.set_size(4, {10, 10});
  marks.restore(4, "<S>");
  newlines.take("d", out);
  CHECK(out == "ab\r\n<R>c<S>d");
  TerminalNewlines late(marks, 3);
  out.clear();
  late.take("cd", out);
  CHECK(out == "c<S>d");
}

TEST_CASE("[S13] marks are bounded, and the oldest that is left speaks for what came before") {
  TerminalMarks marks(0, true, kSize);
  for (int i = 0; i < 1'000'000; ++i) {
    marks.set_size(5, {1 + i % 2, 80});
  }
  CHECK(marks.count() == 2);
  for (Offset at = 6; at < 10'000; ++at) {
    marks.set_bare(at, at % 2 == 0);
  }
  CHECK(marks.count() == TerminalMarks::kMaxMarks);
  CHECK(marks.at(0).serial == marks.at(100).serial);
  CHECK(marks.at(9'999).bare == false);
  CHECK(marks.at(9'998).bare == true);
}

TEST_CASE("Keys send what a terminal sends, in the mode that the program asked for") {
  const KeyModes usual{};
  const KeyModes application{true, true};
  const std::pair<std::string, std::string> table[] = {
      {"a", "a"},
      {"ä", "ä"},
      {"C-c", "\003"},
      {"C-Space", "\0"s},
      {"C-@", "\0"s},
      {"C-[", "\033"},
      {"C-?", "\177"},
      {"M-x", "\033x"},
      {"M-C-x", "\033\030"},
      {"C-M-x", "\033\030"},
      {"-", "-"},
      {"M--", "\033-"},
      {"Enter", "\r"},
      {"Tab", "\t"},
      {"S-Tab", "\033[Z"},
      {"Escape", "\033"},
      {"Space", " "},
      {"Backspace", "\177"},
      {"C-Backspace", "\b"},
      {"Up", "\033[A"},
      {"Left", "\033[D"},
      {"Home", "\033[H"},
      {"End", "\033[F"},
      {"C-Right", "\033[1;5C"},
      {"S-Up", "\033[1;2A"},
      {"M-C-S-Down", "\033[1;8B"},
      {"PageUp", "\033[5~"},
      {"Delete", "\033[3~"},
      {"S-Delete", "\033[3;2~"},
      {"F1", "\033OP"},
      {"S-F1", "\033[1;2P"},
      {"F5", "\033[15~"},
      {"C-F12", "\033[24;5~"},
      {"KP5", "5"},
      {"KPEnter", "\r"},
      {"M-Enter", "\033\r"},
  };
  for (const auto& [key, bytes] : table) {
    CAPTURE(key);
    CHECK(key_bytes(key, usual, "keys[0]") == bytes);
  }
  CHECK(key_bytes("Up", application, "keys[0]") == "\033OA");
  CHECK(key_bytes("C-Up", application, "keys[0]") == "\033[1;5A");
  CHECK(key_bytes("Home", application, "keys[0]") == "\033OH");
  CHECK(key_bytes("KP5", application, "keys[0]") == "\033Ou");
  CHECK(key_bytes("KPEnter", application, "keys[0]") == "\033OM");
}

TEST_CASE("A key that no terminal knows is refused, naming those it knows") {
  for (const std::string key :
       {"", "Foo", "C-", "C-C-c", "ab", "S-a", "C-ä", "C-Enter", "C-1", "M-C-Tab", "\n", "\x7F", "\xFF", "F13"}) {
    CAPTURE(key);
    CHECK(refusal(key).starts_with("params.keys[0]: "));
  }
  try {
    (void)key_bytes("PgUp", {}, "keys[2]");
    FAIL("taken");
  } catch (const rex::Error& error) {
    CHECK(error.fault() == rex::Fault::InvalidParams);
    CHECK(std::string(error.what()).find("keys[2]") != std::string::npos);
  }
}
