// file/edit: exactly what was asked, in all files or none, and back again byte for byte.
#include "files/edit.h"

#include <algorithm>
#include <random>

#include "base/encoding.h"
#include "files/diff.h"
#include "files/read.h"
#include "files/write.h"
#include "files_support.h"

using namespace rex;
using namespace rex::files;
using namespace std::string_literals;

namespace {

using Edits = std::vector<Edit>;

EditResult edit_one(const std::string& path, Edits edits, std::optional<std::string> if_match = {}) {
  return edit({.files = {{path, std::move(edits), std::move(if_match)}}})[0];
}

std::string diff_of(const std::string& before, const std::string& after) {
  const auto old_lines = split_lines(before);
  const auto new_lines = split_lines(after);
  return unified_diff("f", old_lines, new_lines, compare(old_lines, new_lines));
}

/// A second reading of the format: applies a unified diff, or says what does not fit.
std::string patched(const std::string& before, const std::string& diff) {
  const auto old_lines = split_lines(before);
  const auto lines = split_lines(diff);
  std::string out;
  std::size_t at = 0;
  for (std::size_t i = 2; i < lines.size(); ++i) {
    std::string line(lines[i]);
    const bool unended = i + 1 < lines.size() && lines[i + 1].starts_with("\\");
    if (unended) {
      line.pop_back();
    }
    if (line[0] == '@') {
      const std::size_t comma = line.find_first_of(", ", 4);
      std::size_t from = std::stoul(line.substr(4));
      from -= line[comma] == ',' && line[comma + 1] == '0' ? 0 : 1;  // an empty range is named by the line before
      while (at < from) {
        out += old_lines[at++];
      }
    } else if (line[0] == '+') {
      out += line.substr(1);
    } else if (line[0] != '\\') {
      if (at >= old_lines.size() || old_lines[at] != line.substr(1)) {
        return "does not apply";
      }
      out += line[0] == ' ' ? old_lines[at] : "";
      ++at;
    }
  }
  while (at < old_lines.size()) {
    out += old_lines[at++];
  }
  return out;
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> pieces = {"a\n", "b\n",  "a",   "\n",       "\r\n", "cc\n",
                                                  "é\n", "\xE9", "\0"s, "ab\nab\n", "x\n"};
  std::string text;
  for (std::size_t count = random() % 25; count > 0; --count) {
    text += pieces[random() % pieces.size()];
  }
  return text;
}

}  // namespace

TEST_CASE("an edit replaces the one place that matches, exactly", "[X19]") {
  struct {
    std::string before;
    Edit edit;
    std::string after;
  } const rows[] = {
      {"one two three", Replace{"two", "2"}, "one 2 three"},
      {"one two three", Replace{" two", ""}, "one three"},
      {"all", Replace{"all", ""}, ""},
      {"a\r\nb\r\n", Replace{"a\r\n", "c\n"}, "c\nb\r\n"},
      {"\xEF\xBB\xBFx", Replace{"x", "y"}, "\xEF\xBB\xBFy"},
      {"caf\xE9 \0 z"s, Replace{"\0 z"s, "\xFF"}, "caf\xE9 \xFF"},
      {"aaa", Replace{"a", "bb", true}, "bbbbbb"},
      {"aaaa", Replace{"aa", "b", true}, "bb"},
      {"a.a", Replace{"a", "aa", true}, "aa.aa"},
      {"1\n2\n", Insert{1, "0\n"}, "0\n1\n2\n"},
      {"1\n2\n", Insert{0, "0\n"}, "0\n1\n2\n"},
      {"1\n2\n", Insert{2, "x\n"}, "1\nx\n2\n"},
      {"1\n2\n", Insert{3, "3"}, "1\n2\n3"},
      {"1\n2", Insert{3, "!\n"}, "1\n2!\n"},
      {"1\n2", Insert{2, "x\n"}, "1\nx\n2"},
      {"", Insert{0, "x"}, "x"},
      {"", Insert{1, "x"}, "x"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.before);
    CHECK(apply(row.before, {row.edit}, "edits") == row.after);
  }
  CHECK(apply("a b", {Replace{"a", "b c"}, Replace{"b c b", "x"}, Insert{2, "\n"}}, "edits") == "x\n");  // in order
}

TEST_CASE("an edit that cannot be meant is refused, and says why") {
  struct {
    std::string before;
    Edit edit;
    std::string expected, says;
  } const rows[] = {
      {"abc", Replace{"x", "y"}, "InvalidParams edits[0].old", "does not occur"},
      {"a\r\nb\r\n", Replace{"a\nb", "y"}, "InvalidParams edits[0].old", "CR LF"},
      {"x\ny x\n\nx", Replace{"x", "y"}, "InvalidParams edits[0].old", "occurs 3 times, at lines 1, 2, 4;"},
      {"aaa", Replace{"aa", "b"}, "InvalidParams edits[0].old", "occurs 2 times, at lines 1, 1;"},
      {std::string(30, '\n'), Replace{"\n", "b"}, "InvalidParams edits[0].old",
       "30 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …"},
      {"abc", Replace{"x", "y", true}, "InvalidParams edits[0].old", "does not occur"},
      {"abc", Replace{"", "y"}, "InvalidParams edits[0].old", "empty"},
      {"abc", Replace{"b", "b"}, "InvalidParams edits[0].new", "same"},
      {"a\nb\n", Insert{4, "x"}, "InvalidParams edits[0].line", "0 to 3"},
      {"a\nb\n", Insert{-1, "x"}, "InvalidParams edits[0].line", "0 to 3"},
      {"", Insert{2, "x"}, "InvalidParams edits[0].line", "0 lines"},
  };
  for (const auto& row : rows) {
    const Error error = error_of([&] { apply(row.before, {row.edit}, "edits"); });
    CHECK(describe(error) == row.expected);
    CAPTURE(error.message());
    CHECK(error.message().find(row.says) != std::string::npos);
  }
}

TEST_CASE("an edit cannot grow a file without bound") {
  const std::string many(100'000, 'a');
  CHECK(outcome([&] { apply(many, {Replace{"a", many, true}}, "edits"); }) == "LimitExceeded edit.maxBytes");
  CHECK(outcome([&] { apply("a", {Replace{"a", "bbbb"}}, "edits", 3); }) == "LimitExceeded edit.maxBytes");
  CHECK(outcome([&] { apply("a", {Insert{0, "bbb"}}, "edits", 3); }) == "LimitExceeded edit.maxBytes");
}

TEST_CASE("diffs are those of diff -u") {
  struct {
    std::string before, after, diff;
  } const rows[] = {
      {"a\n", "a\n", ""},
      {"", "a\n", "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n"},
      {"a\n", "", "--- f\n+++ f\n@@ -1 +0,0 @@\n-a\n"},
      {"a", "a\n", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
      {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nX\n6\n7\n8\n9\n",
       "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n"},
      {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "2\n3\n4\n5\n6\n7\n8\n9\nX",
       "--- f\n+++ f\n@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n@@ -7,3 +6,4 @@\n 7\n 8\n 9\n+X\n\\ No newline at end of "
       "file\n"},
      {"\xE9\n", "x\n", "--- f\n+++ f\n@@ -1 +1 @@\n-\uFFFD\n+x\n"},
  };
  for (const auto& row : rows) {
    CHECK(diff_of(row.before, row.after) == row.diff);
  }
}

TEST_CASE("a diff applied gives the new text, its changes are minimal and its parts fit", "[property]") {
  std::mt19937 random(5);
  std::size_t wrong = 0;
  for (int round = 0; round < 1'500; ++round) {
    const std::string before = replace_invalid_utf8(random_text(random));
    const std::string after = replace_invalid_utf8(random_text(random));
    wrong += patched(before, diff_of(before, after)) != after;
    const auto old_lines = split_lines(before);
    const auto new_lines = split_lines(after);
    // The longest common subsequence by the textbook, to compare its length.
    std::vector<std::vector<std::size_t>> best(old_lines.size() + 1, std::vector<std::size_t>(new_lines.size() + 1, 0));
    for (std::size_t i = 1; i <= old_lines.size(); ++i) {
      for (std::size_t k = 1; k <= new_lines.size(); ++k) {
        best[i][k] =
            old_lines[i - 1] == new_lines[k - 1] ? best[i - 1][k - 1] + 1 : std::max(best[i - 1][k], best[i][k - 1]);
      }
    }
    std::size_t kept = old_lines.size();
    for (const Change& change : compare(old_lines, new_lines)) {
      kept -= change.old_to - change.old_from;
    }
    wrong += kept != best.back().back();
  }
  CHECK(wrong == 0);
}

TEST_CASE("a diff that is too much work is coarser, still right, and quick") {
  std::mt19937 random(6);
  std::string before, after, shuffled;
  for (int i = 0; i < 200'000; ++i) {
    before += "line " + std::to_string(i) + " old\n";
    after += "line " + std::to_string(i) + (i % 3 == 0 ? " new\n" : " old\n");
    shuffled += "line " + std::to_string(random() % 200'000) + " old\n";
  }
  const auto old_lines = split_lines(before);
  CHECK(compare(old_lines, split_lines(after)).size() == 66'667);
  CHECK_FALSE(compare(old_lines, split_lines(shuffled)).empty());
  const std::string same(100'000, '\n');
  CHECK(compare(split_lines(same), split_lines("x" + same.substr(5000))).size() <= 2);
  const std::string diff = diff_of(before, shuffled);
  CHECK(diff.size() <= max_diff_bytes + 100);
  CHECK(diff.find("more bytes of this diff are left out\n") != std::string::npos);
}

TEST_CASE("undo restores every byte, for random edits", "[property][X19]") {
  std::mt19937 random(7);
  std::size_t wrong = 0;
  std::size_t applied = 0;
  for (int round = 0; round < 6'000; ++round) {
    const std::string before = random_text(random);
    Edits edits;
    for (std::size_t count = 1 + random() % 3; count > 0; --count) {
      const std::size_t from = before.empty() ? 0 : random() % before.size();
      if (random() % 3 == 0) {
        edits.emplace_back(Insert{static_cast<std::int64_t>(random() % 8), random_text(random)});
      } else {
        edits.emplace_back(Replace{before.substr(from, 1 + random() % 6), random_text(random), random() % 2 == 0});
      }
    }
    std::string after;
    try {
      after = apply(before, edits, "edits");
    } catch (const Error&) {
      continue;
    }
    ++applied;
    const auto undo = make_undo(before, after);
    wrong += !undo || apply(after, *undo, "undo") != before;
  }
  CHECK(wrong == 0);
  CHECK(applied > 1'000);
}

TEST_CASE("undo restores large files with many changes, or says it would be too large") {
  std::string before;
  for (int i = 0; i < 20'000; ++i) {
    before += "same\nline " + std::to_string(i) + "\n";
  }
  for (const Edits& edits :
       {Edits{Replace{"same", "other", true}}, Edits{Replace{"line 7\n", ""}, Replace{"line 19999\n", "x"}},
        Edits{Replace{"line 77\n", "same\nsame\nsame\n"}}}) {
    const std::string after = apply(before, edits, "edits");
    const auto undo = make_undo(before, after);
    REQUIRE(undo.has_value());
    CHECK((apply(after, *undo, "undo") == before));
  }
  CHECK_FALSE(make_undo(std::string(5 << 20, 'x'), "y").has_value());
}

TEST_CASE("an edited file has its new bytes, a diff, an etag and a way back", "[X05][X19]") {
  const TempDir dir;
  put(dir / "real", "one\r\ntwo\r\ncaf\xE9\r\n", 0640);
  ::symlink("real", (dir / "link").c_str());
  const EditResult result = edit_one(dir / "link", {Replace{"two", "2"}});
  CHECK(get(dir / "real") == "one\r\n2\r\ncaf\xE9\r\n");
  CHECK(result.diff ==
        "--- " + dir / "link" + "\n+++ " + dir / "link" + "\n@@ -1,3 +1,3 @@\n one\r\n-two\r\n+2\r\n caf\uFFFD\r\n");
  CHECK(result.etag == stat(dir / "real").etag);
  CHECK(stat(dir / "real").mode == 0640);
  CHECK(stat(dir / "link", false).type == Type::symlink);
  REQUIRE(result.undo.has_value());
  edit_one(dir / "link", *result.undo, result.etag);
  CHECK(get(dir / "real") == "one\r\ntwo\r\ncaf\xE9\r\n");
  CHECK(names_in(dir.path()) == std::vector<std::string>{"link", "real"});
}

TEST_CASE("a dry run tells all and changes nothing") {
  const TempDir dir;
  put(dir / "f", "old");
  const std::string etag = stat(dir / "f").etag;
  const EditResult result = edit({.files = {{dir / "f", {Replace{"old", "new"}}}}, .dry_run = true})[0];
  CHECK(result.diff.find("+new") != std::string::npos);
  CHECK(result.undo.has_value());
  CHECK(result.etag == etag);
  CHECK(stat(dir / "f").etag == etag);
}

TEST_CASE("edits that cancel out write nothing") {
  const TempDir dir;
  put(dir / "f", "old");
  const std::string etag = stat(dir / "f").etag;
  const EditResult result = edit_one(dir / "f", {Replace{"old", "new"}, Replace{"new", "old"}});
  CHECK(result.diff.empty());
  REQUIRE(result.undo.has_value());
  CHECK(result.undo->empty());
  CHECK(stat(dir / "f").etag == etag);
}

TEST_CASE("a file that is not what ifMatch says is not edited", "[K4]") {
  const TempDir dir;
  put(dir / "f", "old");
  const std::string etag = read({.path = dir / "f"}).etag;
  put(dir / "f", "odd");  // in place, same size, perhaps the same clock tick
  const Error error = error_of([&] { edit_one(dir / "f", {Replace{"o", "x"}}, etag); });
  CHECK(describe(error) == "Conflict");
  CHECK(fact<std::string>(error, "etag") == stat(dir / "f").etag);
  CHECK(get(dir / "f") == "odd");
}

TEST_CASE("of several files all are edited or none", "[K3]") {
  const TempDir dir;
  for (const char* name : {"a", "b", "c"}) {
    put(dir / name, "old");
  }
  const Edits good = {Replace{"old", "new"}};
  const auto run = [&](const Edits& last, const std::string& path) {
    return outcome([&] { edit({.files = {{dir / "a", good}, {dir / "b", good}, {path, last}}, .several = true}); });
  };
  ::symlink("a", (dir / "alias").c_str());
  CHECK(run({Replace{"none", "x"}}, dir / "c") == "InvalidParams files[2].edits[0].old");
  CHECK(run(good, dir / "missing") == "OsError ENOENT");
  CHECK(run(good, dir / "alias") == "InvalidParams files[2].path");
  CHECK(run(good, "/dev/null") == "OsError EINVAL");
  for (const char* name : {"a", "b", "c"}) {
    CHECK(get(dir / name) == "old");
  }
  CHECK(run(good, dir / "c") == "ok");
  for (const char* name : {"a", "b", "c"}) {
    CHECK(get(dir / name) == "new");
  }
  CHECK(names_in(dir.path()) == std::vector<std::string>{"a", "alias", "b", "c"});
}

TEST_CASE("when the last rename fails, the files before it are reverted", "[K3][X06]") {
  const TempDir dir;
  for (const char* name : {"a", "b", "c", "other"}) {
    put(dir / name, "old", 0640);
  }
  const ino_t inode = status_of(dir / "a").st_ino;
  CHECK(in_private_mounts([&]() -> std::string {
          if (::mount((dir / "other").c_str(), (dir / "c").c_str(), nullptr, MS_BIND, nullptr) != 0) {
            return "no mounts";
          }
          const Edits good = {Replace{"old", "new"}};
          return outcome(
              [&] { edit({.files = {{dir / "a", good}, {dir / "b", good}, {dir / "c", good}}, .several = true}); });
        }).starts_with("OsError E"));
  for (const char* name : {"a", "b", "c", "other"}) {
    CHECK(get(dir / name) == "old");
  }
  CHECK(status_of(dir / "a").st_ino == inode);  // not a copy: the very file
  CHECK(status_of(dir / "a").st_nlink == 1);
  CHECK(names_in(dir.path()) == std::vector<std::string>{"a", "b", "c", "other"});
}

TEST_CASE("a full file system leaves all files as they were", "[K3][X06]") {
  const TempDir dir;
  CHECK(in_private_mounts([&]() -> std::string {
          if (::mount("none", dir.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
            return "no mounts";
          }
          put(dir / "a", "old");
          put(dir / "b", "old");
          const std::string large(50'000, 'x');
          const Edits grow = {Replace{"old", large}};
          return outcome([&] { edit({.files = {{dir / "a", grow}, {dir / "b", grow}}, .several = true}); }) + " " +
                 get(dir / "a") + get(dir / "b") + std::to_string(names_in(dir.path()).size());
        }) == "OsError ENOSPC oldold2");
}

TEST_CASE("what is too large or too much is refused by name") {
  const TempDir dir;
  put(dir / "large", std::string(max_edit_bytes + 1, 'x'));
  CHECK(outcome([&] { edit_one(dir / "large", {Insert{0, "x"}}); }) == "LimitExceeded edit.maxBytes");
  CHECK(outcome([&] { edit({}); }) == "InvalidParams files");
  CHECK(outcome([&] { edit({.files = std::vector<FileEdits>(101)}); }) == "LimitExceeded edit.files");
  CHECK(outcome([&] { edit_one(dir / "large", Edits(1001, Insert{0, "x"})); }) == "LimitExceeded edit.count");
  CHECK(outcome([&] { edit_one("", {}); }) == "InvalidParams path");
}
