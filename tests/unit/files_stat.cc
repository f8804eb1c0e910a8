// file/stat and file/list: truthful, lossless, paged.
#include "files/stat.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "files/write.h"
#include "files_support.h"

using namespace rex;
using namespace rex::files;
using namespace std::string_literals;

namespace {

/// All names, page by page.
std::vector<std::string> list_all(const std::string& path, std::int64_t limit) {
  std::vector<std::string> names;
  ListOptions options{.path = path, .limit = limit};
  for (;;) {
    const ListResult page = list(options);
    CHECK(static_cast<std::int64_t>(page.entries.size()) <= limit);
    for (const ListedEntry& entry : page.entries) {
      names.push_back(entry.name);
    }
    if (!page.cursor) {
      return names;
    }
    options.cursor = *page.cursor;
  }
}

}  // namespace

TEST_CASE("every kind of file is told apart, without opening it", "[K5]") {
  const TempDir dir;
  put(dir / "f", "12345", 0640);
  ::mkfifo((dir / "fifo").c_str(), 0644);
  ::mkdir((dir / "d").c_str(), 01777);
  ::chmod((dir / "d").c_str(), 01777);
  ::symlink("f", (dir / "link").c_str());
  ::symlink("no\nwhere\xFF", (dir / "dangling").c_str());
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  (dir / "s").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  struct {
    std::string path;
    bool follow;
    Type type;
    std::uint32_t mode;
  } const rows[] = {{dir / "f", true, Type::file, 0640},         {dir / "fifo", true, Type::fifo, 0644},
                    {dir / "d", true, Type::directory, 01777},   {dir / "link", true, Type::file, 0640},
                    {dir / "link", false, Type::symlink, 0777},  {dir / "dangling", false, Type::symlink, 0777},
                    {"/dev/null", true, Type::charDevice, 0666}, {dir / "s", true, Type::socket, 0755}};
  for (const auto& row : rows) {
    CAPTURE(row.path, row.follow);
    const Stat result = stat(row.path, row.follow);
    CHECK(name_of(result.type) == name_of(row.type));
    CHECK(result.mode == row.mode);
    CHECK(result.target.has_value() == (row.type == Type::symlink));
  }
  CHECK(stat(dir / "f").size == 5);
  CHECK(stat(dir / "f").uid == ::getuid());
  CHECK(stat(dir / "dangling", false).target == "no\nwhere\xFF");
  CHECK(outcome([&] { stat(dir / "dangling"); }) == "OsError ENOENT");
  CHECK(outcome([] { stat(""); }) == "InvalidParams path");
}

TEST_CASE("the etag changes with the content, also where its size does not") {
  const TempDir dir;
  put(dir / "f", "aaaa");
  const std::string first = stat(dir / "f").etag;
  CHECK(stat(dir / "f").etag == first);
  CHECK(write({.path = dir / "f", .data = "bbbb"}).stat.etag != first);
  CHECK(stat(dir / "f").etag != first);
}

TEST_CASE("names of any bytes come back, by their bytes, at any page size", "[K5]") {
  const TempDir dir;
  std::vector<std::string> names = {"-rf", "a b", "new\nline", "quote'\"", "\xFF\xFE", "é",    ".hidden",
                                    "B",   "a",   "~",         "*",        "\\",       "$(x)", std::string(255, 'n')};
  for (const std::string& name : names) {
    put(dir / name, "x");
  }
  std::sort(names.begin(), names.end());
  for (const std::int64_t limit : {1, 2, 3, 13, 14, 15, 10'000}) {
    CHECK(list_all(dir.path(), limit) == names);
  }
  TempDir empty;
  CHECK(list({.path = empty.path()}).entries.empty());
  CHECK_FALSE(list({.path = empty.path()}).cursor.has_value());
}

TEST_CASE("what stays is listed once, whatever comes and goes between pages") {
  const TempDir dir;
  for (int i = 10; i < 60; ++i) {
    put(dir / std::to_string(i), "");
  }
  ListOptions options{.path = dir.path(), .limit = 7};
  std::vector<std::string> kept;
  for (int round = 0;; ++round) {
    const ListResult page = list(options);
    for (const ListedEntry& entry : page.entries) {
      if (entry.name.size() == 2 && (entry.name[1] - '0') % 2 == 0) {
        kept.push_back(entry.name);
      }
    }
    for (int i = 11 + 2 * round; i < 60; i += 10) {
      ::unlink((dir / std::to_string(i)).c_str());  // only odd ones go, the cursor's among them
    }
    put(dir / ("new" + std::to_string(round)), "");
    if (!page.cursor) {
      break;
    }
    options.cursor = *page.cursor;
  }
  CHECK(kept.size() == 25);
  CHECK(std::is_sorted(kept.begin(), kept.end()));
}

TEST_CASE("a large directory is paged", "[X15][K5]") {
  const TempDir dir;
  constexpr int count = 3'000;
  const Fd fd(::open(dir.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string long_name(200, 'x');
  for (int i = 0; i < count; ++i) {
    const std::string name = long_name + std::to_string(i);
    REQUIRE(::mknodat(fd.get(), name.c_str(), S_IFREG | 0644, 0) == 0);
  }
  std::size_t seen = 0;
  ListOptions options{
      .path = dir.path(),
  };
  for (;;) {
    const ListResult page = list(options);
    seen += page.entries.size();
    if (!page.cursor) {
      break;
    }
    options.cursor = *page.cursor;
  }
  CHECK(seen == count);
}

TEST_CASE("bad requests to list are refused") {
  const TempDir dir;
  put(dir / "f", "");
  CHECK(outcome([&] { list({.path = dir / "f"}); }) == "OsError ENOTDIR");
  CHECK(outcome([&] { list({.path = dir / "none"}); }) == "OsError ENOENT");
  CHECK(outcome([&] { list({.path = dir.path(), .limit = 0}); }) == "InvalidParams limit");
  CHECK(outcome([&] { list({.path = dir.path(), .limit = 10'001}); }) == "LimitExceeded list.limit");
  CHECK(outcome([&] { list({.path = dir.path(), .cursor = "?"}); }) == "InvalidParams cursor");
}

TEST_CASE("an unreadable directory says so", "[X17]") {
  const TempDir dir;
  struct {
    mode_t mode;
    std::string listed, stated;
  } const rows[] = {{0000, "OsError EACCES", "OsError EACCES"},
                    {0333, "OsError EACCES", "ok"},
                    {0444, "OsError EACCES", "OsError EACCES"},
                    {0555, "ok", "ok"}};
  ::mkdir((dir / "d").c_str(), 0755);
  put(dir / "d/f", "");
  for (const auto& row : rows) {
    ::chmod((dir / "d").c_str(), row.mode);
    CAPTURE(row.mode);
    CHECK(outcome_as_nobody([&] { list({.path = dir / "d"}); }) == row.listed);
    CHECK(outcome_as_nobody([&] { stat(dir / "d/f"); }) == row.stated);
  }
  ::chmod((dir / "d").c_str(), 0755);
}
