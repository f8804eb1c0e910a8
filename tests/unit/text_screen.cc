// What shell/screen.h and shell/terminal.h promise: the screen that the bytes draw, whenever it is asked for.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "shell/terminal.h"

using namespace rex::shell;
using namespace std::string_literals;

namespace {

using Lines = std::vector<std::string>;

constexpr termios agent_modes() {
  termios modes{};
  modes.c_oflag = ONLCR;
  modes.c_lflag = ICANON | ECHO | ISIG;
  return modes;
}

/// A terminal with its journal, as a session has them.
struct Rig {
  explicit Rig(WindowSize size = {4, 20}, std::size_t kept = Journal::kDefaultCapacity, bool agent = true)
      : journal({.capacity = kept}), terminal(journal, size, agent) {}

  Heard write(std::string_view bytes) {
    journal.append(bytes);
    return terminal.took(bytes, &modes);
  }
  Lines lines() { return terminal.view({}).lines; }

  termios modes = agent_modes();
  Journal journal;
  Terminal terminal;
};

Lines drawn(const std::string& bytes, WindowSize size = {4, 20}) {
  Rig rig(size);
  rig.write(bytes);
  return rig.lines();
}

}  // namespace

TEST_CASE("A screen shows what the bytes draw") {
  CHECK(drawn("one\ntwo\n") == Lines{"one", "two", "", ""});
  CHECK(drawn("1\n2\n3\n4\n5") == Lines{"2", "3", "4", "5"});
  CHECK(drawn("abc\033[2;5Hx\033[Hy") == Lines{"ybc", "    x", "", ""});
  CHECK(drawn("012345678901234567890123") == Lines{"01234567890123456789", "0123", "", ""});
  CHECK(drawn("\033[?1049h\033[Halt") == Lines{"alt", "", "", ""});
  CHECK(drawn("shell\n\033[?1049h\033[Halt\033[?1049l") == Lines{"shell", "", "", ""});
  CHECK(drawn("\033(0lqk\033(B") == Lines{"┌─┐", "", "", ""});
}

TEST_CASE("[C6] wide characters stand once, marks with what they mark, and what is cut is waited for") {
  CHECK(drawn("a日本b") == Lines{"a日本b", "", "", ""});
  CHECK(drawn("日本\033[1;3Hx") == Lines{"日x", "", "", ""});
  CHECK(drawn("e\xCC\x81x") == Lines{"e\xCC\x81x", "", "", ""});
  CHECK(drawn("😀!") == Lines{"😀!", "", "", ""});
  CHECK(drawn("0123456789012345678日") == Lines{"0123456789012345678", "日", "", ""});
  Rig rig;
  for (const char byte : "日😀"s) {
    rig.write(std::string_view(&byte, 1));
    for (const std::string& line : rig.lines()) {
      CHECK(line.find("\xEF\xBF\xBD") == std::string::npos);
    }
  }
  CHECK(rig.lines()[0] == "日😀");
  CHECK(drawn("\xFF\xC3x")[0].ends_with("x"));
}

TEST_CASE("Colours come as SGR, ended where the row ends") {
  Rig rig({3, 20});
  rig.write("\033[1;31mred\033[0m plain\n\033[48;5;200m \033[0m\n\033[38;2;1;2;3;4;7mx\033[0m");
  CHECK(rig.terminal.view({.since = {}, .ansi = true}).lines ==
        Lines{"\033[0;1;31mred\033[0m plain", "\033[0;48;5;200m \033[0m", "\033[0;4;7;38;2;1;2;3mx\033[0m"});
  CHECK(rig.lines() == Lines{"red plain", "", "x"});
}

TEST_CASE("The screen is the same whenever it is first asked for, and however often") {
  const int seed = GENERATE(1, 2, 3, 4, 5, 6);
  const Lines words = {"word ",     "日本",        "\n",          "\n",     "\r\n",    "\033[31m", "\033[0m",
                       "\033[2;3H", "\033[A",      "\033[K",      "\033[J", "\t",      "\b",       "\033[2;3r",
                       "\033[r",    "\033[?1049h", "\033[?1049l", "\033[L", "\033[2P", "x\033[3b"};
  std::mt19937 random(static_cast<unsigned>(seed));
  Rig late({5, 20});
  Rig often({5, 20});
  for (int i = 0; i < 3000; ++i) {
    const std::string word = words[random() % words.size()];
    late.write(word);
    often.write(word);
    if (i % 7 == 0) {
      (void)often.lines();
    }
  }
  const ScreenView one = late.terminal.view({});
  const ScreenView other = often.terminal.view({});
  CHECK(one.complete);
  CHECK(one.lines == other.lines);
  CHECK(one.cursor.row == other.cursor.row);
  CHECK(one.cursor.col == other.cursor.col);
}

TEST_CASE("Of much text only the last lines are drawn, and they are the screen") {
  Rig late;
  Rig often;
  std::string all = "\033[H\033[2Jcleared\n";
  for (int i = 0; i < 100'000; ++i) {
    all += "line \033[3" + std::to_string(i % 8) + "m" + std::to_string(i) + "\033[0m\n";
  }
  for (std::size_t at = 0; at < all.size(); at += 4096) {
    late.write(std::string_view(all).substr(at, 4096));
    often.write(std::string_view(all).substr(at, 4096));
    (void)often.lines();
  }
  const ScreenView view = late.terminal.view({});
  CHECK(view.complete);
  CHECK(view.lines == Lines{"line 99997", "line 99998", "line 99999", ""});
  CHECK(view.lines == often.lines());
  CHECK(view.next == all.size());
}

TEST_CASE("What was too much to draw, or is lost, makes the screen incomplete until lines have replaced it") {
  Rig rig({4, 20}, Journal::kMinCapacity);
  rig.write("\033[Hlost");
  for (int i = 0; i < 2000; ++i) {
    rig.write("\033[4;1Hpainted " + std::to_string(i));
  }
  CHECK_FALSE(rig.terminal.view({}).complete);
  CHECK(rig.lines()[3] == "painted 1999");
  rig.write("a\nb\nc\nd\ne");
  const ScreenView view = rig.terminal.view({});
  CHECK(view.complete);
  CHECK(view.lines == Lines{"b", "c", "d", "e"});
}

TEST_CASE("While a program paints, it is drawn along: what it painted long ago still shows") {
  Rig rig({4, 20}, Journal::kMinCapacity + Terminal::kMaxBytes * 2);
  rig.write("\033[?1049h\033[1;1Htitle bar");
  for (int i = 0; i < 200'000; ++i) {
    rig.write("\033[3;1Hframe " + std::to_string(i));
  }
  const ScreenView view = rig.terminal.view({});
  CHECK(rig.journal.oldest() > 0);
  CHECK(view.complete);
  CHECK(view.lines == Lines{"title bar", "", "frame 199999", ""});
  CHECK(view.alternate);
}

TEST_CASE("A revision rises with what can be seen, and `since` gives the rows that changed") {
  Rig rig;
  rig.write("one\ntwo\n");
  const ScreenView first = rig.terminal.view({});
  CHECK_FALSE(first.changed);
  const ScreenView same = rig.terminal.view({.since = first.revision});
  CHECK(same.revision == first.revision);
  CHECK(same.lines.empty());
  rig.write("\033[2;1Htwo\033[3;1H");  // painted again
  CHECK(rig.terminal.view({.since = first.revision}).revision == first.revision);
  rig.write("\033[1;1HONE\033[3;1H");
  const ScreenView second = rig.terminal.view({.since = first.revision});
  CHECK(second.revision > first.revision);
  CHECK(second.lines == Lines{"ONE"});
  CHECK(second.changed == std::vector<int>{0});
  rig.write("\033]2;name\007");
  const ScreenView third = rig.terminal.view({.since = second.revision});
  CHECK(third.revision > second.revision);
  CHECK(third.lines.empty());
  CHECK(third.title == "name");
  CHECK(rig.terminal.view({.since = 0}).lines.size() == 4);
  CHECK_THROWS_AS(rig.terminal.view({.since = third.revision + 1}), rex::Error);
}

TEST_CASE("A screen that is resized wraps its lines anew, and is drawn with the size of each byte") {
  Rig rig({4, 20});
  rig.write("0123456789abcdefghij0123456789\n$ ");
  SECTION("asked before") { (void)rig.lines(); }
  SECTION("asked after only") {}
  rig.terminal.resize({4, 40});
  CHECK(rig.lines() == Lines{"0123456789abcdefghij0123456789", "$", "", ""});
  rig.terminal.resize({3, 15});
  CHECK(rig.lines() == Lines{"0123456789abcde", "fghij0123456789", "$"});
}

TEST_CASE("A painted screen that is resized keeps what fits, and what lies beneath it") {
  Rig rig({4, 20});
  rig.write("shell\n$ vim\033[?1049h\033[1;1Htop left\033[1;18Hend\033[4;1H\033[32mbottom\033[m\033[4;3H");
  SECTION("asked before") { (void)rig.lines(); }
  SECTION("asked after only") {}
  rig.terminal.resize({3, 18});
  const ScreenView view = rig.terminal.view({.since = {}, .ansi = true});
  CHECK(view.lines == Lines{"", "", "\033[0;32mbottom\033[0m"});
  CHECK(view.cursor.row == 2);
  CHECK(view.cursor.col == 2);
  CHECK(view.alternate);
  rig.write("\033[?1049l");
  CHECK(rig.lines() == Lines{"shell", "$ vim", ""});
}

TEST_CASE("[C20] a screen too large to keep is refused, and comes back with a possible size") {
  Rig rig;
  rig.write("hello");
  rig.terminal.resize({1000, 1000});
  CHECK_THROWS_AS(rig.lines(), rex::Error);
  CHECK(rig.write("\033[6n").answers.empty());
  rig.terminal.resize({4, 20});
  CHECK(rig.lines()[0] == "hello");
}

TEST_CASE("The cursor is told where it stands behind the question, with nobody looking") {
  Rig rig({10, 20});
  CHECK(rig.write("ab\ncd\033[6nef\033[6n").answers == "\033[2;3R\033[2;5R");
  CHECK(rig.write("\033[5;7H\033[6n").answers == "\033[5;7R");
  std::string text;
  for (int i = 0; i < 50'000; ++i) {
    text += "line\n";
  }
  CHECK(rig.write(text + "xy\033[6n").answers == "\033[10;3R");
}

TEST_CASE("Line feeds go back to the left where the program counts on it, and only there") {
  Rig rig;
  SECTION("an agent's terminal leaves them bare") {
    rig.write("a\nb");
    CHECK(rig.lines() == Lines{"a", "b", "", ""});
  }
  SECTION("curses and vim turn ONLCR off") {
    rig.modes.c_oflag = 0;
    rig.write("\033[?25la\nb");
    CHECK(rig.lines() == Lines{"a", " b", "", ""});
  }
  SECTION("tmux and ssh are raw, on the other screen") {
    rig.write("text\n");
    rig.modes.c_lflag = 0;
    rig.write("$ \n\033[?1049h\033[Ha\nb");
    CHECK(rig.lines() == Lines{"a", " b", "", ""});
  }
  SECTION("node is raw, on the first screen") {
    rig.modes.c_lflag = 0;
    rig.write("a\nb");
    CHECK(rig.lines() == Lines{"a", "b", "", ""});
  }
  SECTION("less turns output processing on") {
    rig.modes.c_oflag = OPOST | ONLCR;
    rig.write("a\r\nb");
    CHECK(rig.lines() == Lines{"a", "b", "", ""});
  }
  SECTION("a mode that changed among the bytes changed at their first sequence") {
    rig.write("one\n");
    rig.modes.c_oflag = 0;
    rig.write("two\nthree\n\033[1ma\nb");
    CHECK(rig.lines() == Lines{"two", "three", "a", " b"});
  }
  SECTION("a person's terminal says what it means") {
    Rig human({4, 20}, Journal::kDefaultCapacity, false);
    human.write("a\nb");
    CHECK(human.lines() == Lines{"a", " b", "", ""});
  }
}

TEST_CASE("[C11] nothing a job left on the terminal stays") {
  Rig rig;
  rig.write("before\n\033[?1049h\033[Hgarbage\033[2;3r\033(0\033[?25l\033[?7l");
  (void)rig.lines();
  rig.terminal.restore();
  rig.write("next lines\n");
  const ScreenView view = rig.terminal.view({});
  CHECK(view.lines == Lines{"before", "next lines", "", ""});
  CHECK_FALSE(view.alternate);
  CHECK(view.cursor_visible);
}

TEST_CASE("Whatever bytes come and however the size changes, there is a screen") {
  const int seed = GENERATE(1, 2, 3, 4);
  std::mt19937 random(static_cast<unsigned>(seed));
  Rig rig({10, 30}, 64 * 1024);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (int n = static_cast<int>(random() % 60); n > 0; --n) {
      const unsigned r = random() % 8;
      bytes += r == 0   ? "\033["s
               : r == 1 ? std::to_string(random() % 50) + ";"
               : r == 2 ? std::string(1, static_cast<char>('@' + random() % 63))
               : r == 3 ? "日"s
               : r == 4 ? "\n"s
                        : std::string(1, static_cast<char>(random()));
    }
    rig.write(bytes);
    if (random() % 5 == 0) {
      rig.terminal.resize({1 + static_cast<int>(random() % 60), 1 + static_cast<int>(random() % 90)});
    }
    if (random() % 3 == 0) {
      const ScreenView view = rig.terminal.view({});
      CHECK(view.lines.size() == static_cast<std::size_t>(view.size.rows));
    }
  }
}
