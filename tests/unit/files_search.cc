// Searching: which lines a pattern means however its bytes come in, which paths a glob means.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "files/glob.h"
#include "files/search.h"
#include "unit/files_support.h"

using namespace rex;
using namespace rex::files;

namespace {

std::string text_of(const ShownLine& line) {
  std::string out = line.cut_before > 0 ? "<" + std::to_string(line.cut_before) + ">" : "";
  out += line.text.size() > 60 ? std::to_string(line.text.size()) + " bytes" : line.text;
  return out + (!line.cut_after ? "<?>" : *line.cut_after > 0 ? "<" + std::to_string(*line.cut_after) + ">" : "");
}

/// "number:from-to:before…|line|after…" of each match; the text comes in pieces of `piece` bytes.
std::vector<std::string> lines(const std::string& pattern, std::string_view text, std::int64_t context = 0,
                               std::size_t piece = 1 << 20, std::int64_t most = 1000) {
  const LinePattern compiled(pattern);
  SearchBudget budget{most, max_result_bytes, false};
  LineSearch search(compiled, context, budget);
  search.begin(0);
  while (!text.empty()) {
    const std::span<char> room = search.room();
    const std::size_t size = std::min({piece, room.size(), text.size()});
    std::memcpy(room.data(), text.data(), size);
    text.remove_prefix(size);
    search.take(size, false);
  }
  search.take(0, true);
  std::vector<std::string> all;
  for (const LineMatch& match : search.matches()) {
    std::string out =
        std::to_string(match.number) + ":" + std::to_string(match.from) + "-" + std::to_string(match.to) + ":";
    for (const ShownLine& line : match.before) {
      out += text_of(line) + "\\";
    }
    out += text_of(match.line);
    for (const ShownLine& line : match.after) {
      out += "/" + text_of(line);
    }
    all.push_back(out);
  }
  if (budget.exceeded) {
    all.emplace_back("more");
  }
  return all;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("A line matches or not by itself, however its bytes come") {
  struct Row {
    std::string pattern;
    std::string text;
    Lines found;
  };
  const Row rows[] = {
      {"b", "a\nb\nab\n", {"2:2-3:b", "3:5-6:ab"}},
      {"b", "a\nb", {"2:2-3:b"}},
      {"", "a\n\nb\n", {"1:0-0:a", "2:2-2:", "3:3-3:b"}},
      {"", "", {}},
      {"^$", "a\n\n\nb\n", {"2:2-2:", "3:3-3:"}},
      {"^b$", "ab\nb\nba\n", {"2:3-4:b"}},
      {"a[^x]b", "a\nb\nayb\n", {"3:4-7:ayb"}},
      {"a\\sb", "a\nb\na b\n", {"3:4-7:a b"}},
      {"a\\Wb", "a\nb\na-b\n", {"3:4-7:a-b"}},
      {"a\\Cb", "a\nb\na-b\n", {"3:4-7:a-b"}},
      {"(?s)a.b", "a\nb\na.b\n", {"3:4-7:a.b"}},
      {"a\n", "a\na\n", {}},
      {"a|\n", "b\na\n", {"2:2-3:a"}},
      {"\\Ab", "ab\nba\n", {"2:3-4:ba"}},
      {"b\\z", "ba\nab\n", {"2:4-5:ab"}},
      {"(?-m)^b", "ab\nb\n", {"2:3-4:b"}},
      {"(?i)B", "b\n", {"1:0-1:b"}},
      {"a$", "a\r\n", {}},
      {"a\r$", "a\r\n", {"1:0-2:a\r"}},
      {"\\bb", "a\nb\n", {"2:2-3:b"}},
      {"b", std::string("a\0b\n", 4), {std::string("1:2-3:a\0b", 9)}},
      {"b",
       "\xff"
       "b\n",
       {"1:1-2:\xff"
        "b"}},
      {".b",
       "\xff"
       "b\n\xc3\xbc"
       "b\n",
       {"2:3-6:\xc3\xbc"
        "b"}},
      {"x+", "xx xxx\n", {"1:0-2:xx xxx"}},
  };
  for (const Row& row : rows) {
    for (const std::size_t piece : {1, 2, 3, 1000}) {
      INFO(row.pattern << " in pieces of " << piece);
      CHECK(lines(row.pattern, row.text, 0, piece) == row.found);
    }
  }
}

TEST_CASE("Context is whole wherever the pieces end") {
  const std::string text = "1\n2\n3x\n4\n5x\n6\n7\n8x";
  for (const std::size_t piece : {1, 2, 3, 5, 1000}) {
    INFO("pieces of " << piece);
    CHECK(lines("x", text, 1, piece) == Lines{"3:5-6:2\\3x/4", "5:10-11:4\\5x/6", "8:17-18:7\\8x"});
    CHECK(lines("x", text, 3, piece) ==
          Lines{"3:5-6:1\\2\\3x/4/5x/6", "5:10-11:2\\3x\\4\\5x/6/7/8x", "8:17-18:5x\\6\\7\\8x"});
    CHECK(lines("x", text, 2, piece, 2) == Lines{"3:5-6:1\\2\\3x/4/5x", "5:10-11:3x\\4\\5x/6/7", "more"});
  }
}

TEST_CASE("Of a long line is shown what is about the match, cut between characters, and what was cut is said") {
  const std::string a(3000, 'a');
  CHECK(lines("b", a + "b" + a + "\n") == Lines{"1:3000-3001:<2744>1024 bytes<2233>"});
  CHECK(lines("^a", a + "\n") == Lines{"1:0-1:1024 bytes<1976>"});
  std::string umlauts;
  std::string euros;
  for (int i = 0; i < 1500; ++i) {
    umlauts += "\xc3\xbc";
    euros += i < 1000 ? "\xe2\x82\xac" : "";
  }
  CHECK(lines("b", "a" + umlauts + "b" + umlauts + "\n") == Lines{"1:3001-3002:<2745>1023 bytes<2234>"});
  CHECK(lines("b", euros + "b" + euros + "\n") == Lines{"1:3000-3001:<2745>1024 bytes<2232>"});
  CHECK(lines("b", a + "\nb\n" + a + "\n", 1) == Lines{"2:3001-3002:1024 bytes<1976>\\b/1024 bytes<1976>"});
}

TEST_CASE("A line without an end costs bounded memory, and its parts have their places") {
  const std::string a(max_searched_line, 'a');
  const std::int64_t size = max_searched_line;
  const auto place = [](std::int64_t n) { return std::to_string(n) + "-" + std::to_string(n + 1) + ":"; };
  const std::string text = "x\n" + a + "b" + a + "\nb\n";
  CHECK(lines("b", text) == Lines{"2:" + place(size + 2) + "<" + std::to_string(size) + ">1024 bytes<?>",
                                  "3:" + place(2 * size + 4) + "b"});
}

TEST_CASE("A pattern that is none is refused by name") {
  CHECK(outcome([] { LinePattern("("); }) == "InvalidParams pattern");
  CHECK(outcome([] { LinePattern("(a)\\1"); }) == "InvalidParams pattern");
  CHECK(outcome([] { LinePattern(std::string(max_pattern_bytes + 1, 'a')); }) == "InvalidParams pattern");
  CHECK(outcome([] { LinePattern("((a{100}){100}){100}"); }) == "InvalidParams pattern");
  for (const char* glob : {"", "a[", "a{b", "a\\", "!a", "[z-a]"}) {
    INFO(glob);
    CHECK(outcome([glob] { const Glob refused(glob); }) == "InvalidParams glob");
  }
}

TEST_CASE("A glob means names without a slash and paths with one") {
  struct Row {
    const char* glob;
    std::vector<const char*> yes;
    std::vector<const char*> no;
  };
  const Row rows[] = {
      {"*.cc", {"a.cc", "x/y/a.cc", ".cc", "new\nline.cc"}, {"a.h", "a.cc.bak"}},
      {"a?c",
       {"abc",
        "a\xc3\xbc"
        "c",
        "a\xff"
        "c"},
       {"ac", "abbc"}},
      {"[a-c]x", {"bx"}, {"dx", "-x"}},
      {"[!a-c]x", {"dx"}, {"bx"}},
      {"[]a]", {"]", "a"}, {"b"}},
      {"[[:digit:]]", {"7"}, {"d", ":"}},
      {"*.{cc,h{,pp}}", {"a.cc", "a.h", "a.hpp"}, {"a.hh", "a."}},
      {"a,b", {"a,b"}, {"a"}},
      {"\\*", {"*"}, {"a", "\\*"}},
      {"a.b(c)+$", {"a.b(c)+$"}, {"aab(c)+$"}},
      {"src/*.cc", {"src/a.cc"}, {"a.cc", "src/x/a.cc", "x/src/a.cc"}},
      {"src/**/*.cc", {"src/a.cc", "src/x/y/a.cc"}, {"a.cc", "x/src/a.cc"}},
      {"**/test/*", {"test/a", "x/test/a"}, {"test/x/a", "test"}},
      {"src/**", {"src/a", "src/x/a"}, {"src", "srcx/a"}},
      {"src/", {"src/a", "src/x/a"}, {"src", "x/src/a"}},
      {"/a", {"a"}, {"x/a"}},
      {"./a", {"a"}, {"x/a"}},
      {"**", {"a", "x/a"}, {}},
      {"a**b", {"ab", "axxb"}, {"a/b"}},
      {"{src,lib}/*", {"src/a", "lib/a"}, {"x/a"}},
  };
  for (const Row& row : rows) {
    const Glob glob(row.glob);
    for (const char* path : row.yes) {
      INFO(row.glob << " and " << path);
      CHECK(glob.matches(path));
      const std::string_view whole = path;
      for (std::size_t at = whole.find('/'); at != whole.npos; at = whole.find('/', at + 1)) {
        CHECK(glob.may_match_below(whole.substr(0, at)));
      }
    }
    for (const char* path : row.no) {
      INFO(row.glob << " and not " << path);
      CHECK(!glob.matches(path));
    }
  }
  CHECK(!Glob("src/*.cc").may_match_below("lib"));
  CHECK(!Glob("src/*.cc").may_match_below("src/x"));
  CHECK(!Glob("src/**/*.cc").may_match_below("lib"));
}

TEST_CASE("A tree is searched in order and to its bounds") {
  const TempDir dir;
  const auto run = [&dir](SearchOptions options) {
    options.path = dir.path();
    Search search(std::move(options));
    while (!search.step(Milliseconds(0))) {
    }
    return search.take();
  };
  const auto paths = [&dir](const SearchResult& result) {
    Lines all;
    for (const SearchMatch& match : result.matches) {
      all.push_back(match.path.substr(dir.path().size() + 1));
    }
    return all;
  };
  for (const char* name : {"d", "d/e", "a", ".git", "d/.git"}) {
    ::mkdir((dir / name).c_str(), 0755);
  }
  for (const char* name : {"z", "d/b", "d/e/c", "a/y", ".hidden", ".git/config", "d/.git/config"}) {
    put(dir / name, "word\n");
  }
  put(dir / "binary", std::string("word\0", 5));
  put(dir / "late", std::string(9000, 'x') + std::string("\0word", 5));
  REQUIRE(::symlink("..", (dir / "d/loop").c_str()) == 0);
  REQUIRE(::symlink("z", (dir / "link").c_str()) == 0);
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0644) == 0);

  const SearchResult all = run({.pattern = "word"});
  CHECK(paths(all) == Lines{".hidden", "late", "z", "a/y", "d/b", "d/e/c"});
  CHECK((all.files == 6 && all.binary == 1 && all.skipped == 2 && all.unreadable == 0 && !all.truncated));
  CHECK(paths(run({.pattern = "word", .glob = "d/**"})) == Lines{"d/b", "d/e/c"});
  CHECK(paths(run({.glob = "*[bk]"})) == Lines{"link", "d/b"});
  CHECK(paths(run({})).size() == 10);
  for (const std::int64_t most : {5, 6, 7}) {
    const SearchResult some = run({.pattern = "word", .max_results = most});
    CHECK((static_cast<std::int64_t>(some.matches.size()) == std::min<std::int64_t>(most, 6) &&
           some.truncated == (most < 6)));
  }
}

TEST_CASE("What a file or a directory refuses is named, and the rest is searched") {
  const TempDir dir;
  for (const char* name : {"closed", "open"}) {
    ::mkdir((dir / name).c_str(), 0755);
    put(dir / name + "/file", "word\n");
  }
  put(dir / "secret", "word\n", 0);
  ::chmod((dir / "closed").c_str(), 0);
  const std::string told = in_child([&dir]() -> std::string {
    if (::getuid() == 0 && ::setuid(65534) != 0) {
      return "cannot become another user";
    }
    Search search({.path = dir.path(), .pattern = "word"});
    while (!search.step(Milliseconds(10))) {
    }
    const SearchResult result = search.take();
    std::string out = std::to_string(result.matches.size()) + " of " + std::to_string(result.unreadable);
    for (const SearchError& error : result.errors) {
      out += " " + error.path.substr(dir.path().size() + 1) + " " + strerrorname_np(error.error_number);
    }
    return out;
  });
  ::chmod((dir / "closed").c_str(), 0755);
  CHECK(told == "1 of 2 secret EACCES closed EACCES");
  CHECK(outcome([&dir] { Search({.path = dir / "none", .pattern = "x"}).step(Milliseconds(1)); }) == "OsError ENOENT");
  CHECK(outcome([] { Search({.path = "/dev/null", .pattern = "x"}).step(Milliseconds(1)); }) == "OsError EINVAL");
}

TEST_CASE("[K6] a search of everything leaves out what the kernel makes up") {
  Search search({.path = "/proc/self", .pattern = "^Name:\t", .glob = "status"});
  while (!search.step(Milliseconds(10))) {
  }
  CHECK(!search.take().matches.empty());  // asked for, it is searched
  const TempDir dir;
  ::mkdir((dir / "proc").c_str(), 0755);
  const std::string told = in_private_mounts([&dir]() -> std::string {
    if (::mount("none", (dir / "proc").c_str(), "proc", 0, nullptr) != 0) {
      return "no mounts";
    }
    Search below({.path = dir.path(), .pattern = "x"});
    while (!below.step(Milliseconds(10))) {
    }
    const SearchResult result = below.take();
    return std::to_string(result.files) + " files, " + std::to_string(result.skipped) + " skipped";
  });
  CHECK(told == "0 files, 1 skipped");
}
