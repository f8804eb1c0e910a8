// file/write: the old file or the new one, whatever happens, and never more rights than before.
#include "files/write.h"

#include <sys/resource.h>
#include <sys/xattr.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "files/read.h"
#include "files/tree.h"
#include "files_support.h"

using namespace rex;
using namespace rex::files;
using namespace std::string_literals;

namespace {

using Names = std::vector<std::string>;

/// "old" intact and nothing left beside it, after a failed write to `path` in `directory`.
std::string aftermath(const std::string& directory, const std::string& path) {
  const bool intact = get(path) == "old";
  const std::size_t names = names_in(directory).size();
  return (intact ? ", old intact" : ", old LOST") + (names == 1 ? ""s : ", left behind: " + std::to_string(names - 1));
}

}  // namespace

TEST_CASE("written bytes are read back exactly, new file or old", "[X19]") {
  const TempDir dir;
  for (const std::string& bytes : {"one\r\n"s, ""s, "\xEF\xBB\xBF"s, "\0\xFF\xE9\n"s, std::string(3 << 20, 'x')}) {
    const WriteResult result = write({.path = dir / "f", .data = bytes});
    CHECK(get(dir / "f") == bytes);
    CHECK(result.stat.size == static_cast<std::int64_t>(bytes.size()));
    CHECK(result.stat.etag == stat(dir / "f").etag);
    CHECK(result.created == (bytes == "one\r\n"));
  }
  CHECK(names_in(dir.path()) == Names{"f"});
}

TEST_CASE("texts are decoded strictly before anything is written") {
  CHECK(decode("caf\xC3\xA9", Encoding::latin1) == "caf\xE9");
  CHECK(decode("AP8=", Encoding::base64) == "\0\xFF"s);
  CHECK(decode("é", Encoding::utf8) == "é");
  CHECK(outcome([] { decode("€", Encoding::latin1); }) == "InvalidParams data");
  CHECK(outcome([] { decode("AP8", Encoding::base64); }) == "InvalidParams data");
}

TEST_CASE("a new file has the mode asked for, else what the umask leaves", "[X05]") {
  const TempDir dir;
  const mode_t umask = ::umask(027);
  CHECK(write({.path = dir / "default", .data = "x"}).stat.mode == 0640);
  CHECK(write({.path = dir / "exact", .data = "x", .mode = 0755}).stat.mode == 0755);
  CHECK(write({.path = dir / "appended", .data = "x", .mode = 0666, .append = true}).stat.mode == 0666);
  ::umask(umask);
  CHECK(outcome([&] { write({.path = dir / "f", .data = "x", .mode = 04755}); }) == "InvalidParams mode");
}

TEST_CASE("a replaced file keeps its mode and attributes but never gains a right", "[X05]") {
  const TempDir dir;
  struct {
    mode_t before, after;
  } const rows[] = {{0644, 0644},  {0600, 0600},  {0755, 0755},  {0000, 0000},  {0200, 0200},
                    {04755, 0755}, {02755, 0755}, {06777, 0777}, {01644, 01644}};
  for (const auto& row : rows) {
    put(dir / "f", "old", row.before);
    if (::getuid() != 0 && (row.before & 0200) == 0) {
      continue;  // only root may write these
    }
    CHECK(write({.path = dir / "f", .data = "new", .mode = 0777}).stat.mode == row.after);
    ::unlink((dir / "f").c_str());
  }
  put(dir / "f", "old", 0640);
  if (::setxattr((dir / "f").c_str(), "user.note", "kept", 4, 0) == 0) {
    write({.path = dir / "f", .data = "new"});
    char value[8] = {};
    CHECK(::getxattr((dir / "f").c_str(), "user.note", value, sizeof value) == 4);
    CHECK(value == "kept"s);
  }
}

TEST_CASE("a replaced file keeps its owner, and its ACL but no default one", "[X05]") {
  if (::getuid() != 0) {
    SKIP("only root can give files away");
  }
  const TempDir dir;
  put(dir / "f", "old", 0640);
  REQUIRE(::chown((dir / "f").c_str(), 1234, 5678) == 0);
  const Stat after = write({.path = dir / "f", .data = "new"}).stat;
  CHECK(after.uid == 1234);
  CHECK(after.gid == 5678);
  CHECK(after.mode == 0640);
  // Version 2; user::rw-, user:99:rw-, group::r--, mask::rw-, other::---
  const std::string acl =
      "\2\0\0\0\1\0\6\0\xFF\xFF\xFF\xFF\2\0\6\0\x63\0\0\0\4\0\4\0\xFF\xFF\xFF\xFF\x10\0\6\0\xFF\xFF\xFF\xFF\x20\0\0\0\xFF\xFF\xFF\xFF"s;
  put(dir / "acl", "old");
  if (::setxattr((dir / "acl").c_str(), "system.posix_acl_access", acl.data(), acl.size(), 0) != 0) {
    SKIP("this file system has no ACLs");
  }
  put(dir / "plain", "old", 0640);
  REQUIRE(::setxattr(dir.path().c_str(), "system.posix_acl_default", acl.data(), acl.size(), 0) == 0);
  write({.path = dir / "acl", .data = "new"});
  write({.path = dir / "plain", .data = "new"});
  char value[256];
  const ssize_t size = ::getxattr((dir / "acl").c_str(), "system.posix_acl_access", value, sizeof value);
  CHECK(std::string(value, static_cast<std::size_t>(std::max<ssize_t>(size, 0))) == acl);
  CHECK(::getxattr((dir / "plain").c_str(), "system.posix_acl_access", value, sizeof value) < 0);
  CHECK(stat(dir / "plain").mode == 0640);
}

TEST_CASE("group rights are not passed on to another group", "[X05]") {
  if (::getuid() != 0) {
    SKIP("only root can make a file of another group");
  }
  const TempDir dir;
  ::chmod(dir.path().c_str(), 0777);
  put(dir / "f", "old", 0666);
  REQUIRE(::chown((dir / "f").c_str(), 1234, 5678) == 0);
  ::chmod((dir / "f").c_str(), 0676);
  CHECK(outcome_as_nobody([&] { write({.path = dir / "f", .data = "new"}); }) == "ok");
  CHECK(stat(dir / "f").uid == 65534);
  CHECK(stat(dir / "f").mode == 0666);
}

TEST_CASE("a final link is followed and stays a link", "[X05]") {
  const TempDir dir;
  ::mkdir((dir / "d").c_str(), 0755);
  put(dir / "d/real", "old");
  ::symlink("d/real", (dir / "link").c_str());
  ::symlink((dir / "link").c_str(), (dir / "link2").c_str());
  ::symlink("d/made", (dir / "dangling").c_str());
  ::symlink("loop", (dir / "loop").c_str());
  CHECK_FALSE(write({.path = dir / "link2", .data = "new"}).created);
  CHECK(get(dir / "d/real") == "new");
  CHECK(write({.path = dir / "dangling", .data = "made"}).created);
  CHECK(get(dir / "d/made") == "made");
  write({.path = dir / "link", .data = "+", .append = true});
  CHECK(get(dir / "d/real") == "new+");
  for (const char* link : {"link", "link2", "dangling"}) {
    CHECK(stat(dir / link, false).type == Type::symlink);
  }
  CHECK(outcome([&] { write({.path = dir / "loop", .data = "x"}); }) == "OsError ELOOP");
  CHECK(names_in(dir / "d") == Names{"made", "real"});
}

TEST_CASE("another hard link keeps the old content", "[X05]") {
  const TempDir dir;
  put(dir / "a", "old");
  REQUIRE(::link((dir / "a").c_str(), (dir / "b").c_str()) == 0);
  write({.path = dir / "a", .data = "new"});
  CHECK(get(dir / "b") == "old");
  write({.path = dir / "b", .data = "+", .append = true});
  CHECK(get(dir / "b") == "old+");
}

TEST_CASE("missing directories are made, unless not wanted") {
  const TempDir dir;
  CHECK(write({.path = dir / "a/b//c/f", .data = "x"}).created);
  CHECK(get(dir / "a/b/c/f") == "x");
  CHECK(outcome([&] { write({.path = dir / "n/f", .data = "x", .parents = false}); }) == "OsError ENOENT");
  CHECK(outcome([&] { write({.path = dir / "a/b/c/f/g", .data = "x"}); }) == "OsError ENOTDIR");
}

TEST_CASE("appending adds at the end, in place") {
  const TempDir dir;
  CHECK(write({.path = dir / "log", .data = "one\n", .append = true}).created);
  const ino_t inode = status_of(dir / "log").st_ino;
  CHECK_FALSE(write({.path = dir / "log", .data = "two\n", .append = true}).created);
  CHECK(get(dir / "log") == "one\ntwo\n");
  CHECK(status_of(dir / "log").st_ino == inode);
}

TEST_CASE("what cannot be replaced is refused and left alone", "[TM24][K5][X01]") {
  const TempDir dir;
  ::mkfifo((dir / "fifo").c_str(), 0644);
  ::mkdir((dir / "d").c_str(), 0755);
  struct {
    std::string path, expected;
  } const rows[] = {{dir / "fifo", "OsError EINVAL"},
                    {"/dev/null", "OsError EINVAL"},
                    {dir / "d", "OsError EISDIR"},
                    {dir / "d/", "OsError EISDIR"},
                    {dir / "d/.", "OsError EISDIR"},
                    {"/", "OsError EISDIR"},
                    {"..", "OsError EISDIR"},
                    {dir / "new/..", "OsError EISDIR"},
                    {"", "InvalidParams path"},
                    {"a\0b"s, "InvalidParams path"},
                    {dir / std::string(256, 'n'), "OsError ENAMETOOLONG"},
                    {"/" + std::string(4096, 'p'), "OsError ENAMETOOLONG"}};
  for (const bool append : {false, true}) {
    for (const auto& row : rows) {
      CAPTURE(row.path, append);
      CHECK(outcome([&] { write({.path = row.path, .data = "x", .append = append}); }) == row.expected);
    }
  }
  CHECK(S_ISCHR(status_of("/dev/null").st_mode));
  CHECK(outcome([&] { write({.path = dir / std::string(255, 'n'), .data = "x"}); }) == "ok");
  CHECK(names_in(dir / "d").empty());
}

TEST_CASE("a file that may not be written is not replaced behind its back", "[K3][X17]") {
  const TempDir dir;
  ::chmod(dir.path().c_str(), 0777);
  put(dir / "f", "old", 0444);
  CHECK(outcome_as_nobody([&] { write({.path = dir / "f", .data = "new"}); }) == "OsError EACCES");
  CHECK(aftermath(dir.path(), dir / "f") == ", old intact");
  ::chmod((dir / "f").c_str(), 0666);
  ::chmod(dir.path().c_str(), 0755);
  CHECK(outcome_as_nobody([&] { write({.path = dir / "f", .data = "new"}); }) == "OsError EACCES");
  CHECK(outcome_as_nobody([&] { write({.path = dir / "new", .data = "new"}); }) == "OsError EACCES");
  CHECK(aftermath(dir.path(), dir / "f") == ", old intact");
}

TEST_CASE("a directory that may be written but not listed can be written to", "[X17]") {
  const TempDir dir;
  ::mkdir((dir / "drop").c_str(), 0777);
  ::chmod((dir / "drop").c_str(), 0333);
  CHECK(outcome_as_nobody([&] { write({.path = dir / "drop/f", .data = "x"}); }) == "ok");
  CHECK(outcome_as_nobody([&] { write({.path = dir / "drop/f", .data = "y", .append = true}); }) == "ok");
  ::chmod((dir / "drop").c_str(), 0777);
  CHECK(get(dir / "drop/f") == "xy");
  CHECK(names_in(dir / "drop") == Names{"f"});
}

TEST_CASE("a full or read-only file system leaves the old content, and names its errno", "[K3][X06]") {
  const TempDir dir;
  const std::string mount = dir.path();
  const std::string answer = in_private_mounts([&]() -> std::string {
    if (::mount("none", mount.c_str(), "tmpfs", 0, "size=64k") != 0) {
      return "no mounts";
    }
    put(dir / "f", "old");
    std::string text = outcome([&] { write({.path = dir / "f", .data = std::string(200'000, 'x')}); });
    text += aftermath(mount, dir / "f");
    text += "; " + outcome([&] { write({.path = dir / "f", .data = std::string(200'000, 'x'), .append = true}); });
    text += aftermath(mount, dir / "f");
    text += "; " + outcome([&] { write({.path = dir / "g", .data = std::string(200'000, 'x'), .append = true}); });
    text += aftermath(mount, dir / "f");
    ::mount("none", mount.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
    text += "; " + outcome([&] { write({.path = dir / "f", .data = "new"}); });
    text += "; " + outcome([&] { write({.path = dir / "f", .data = "new", .append = true}); });
    text += "; " + outcome([&] { write({.path = dir / "g", .data = "new"}); });
    return text + aftermath(mount, dir / "f");
  });
  CHECK(answer ==
        "OsError ENOSPC, old intact; OsError ENOSPC, old intact; OsError ENOSPC, old intact; "
        "OsError EROFS; OsError EROFS; OsError EROFS, old intact");
}

TEST_CASE("an error at any point of a long write leaves the old content", "[K3][X06]") {
  const TempDir dir;
  put(dir / "f", "old");
  for (const rlim_t most : {0, 1, 4096, 100'000}) {
    CHECK(in_child([&]() -> std::string {
            ::signal(SIGXFSZ, SIG_IGN);
            const rlimit limit{most, most};
            ::setrlimit(RLIMIT_FSIZE, &limit);
            const std::string replaced =
                outcome([&] { write({.path = dir / "f", .data = std::string(200'000, 'x')}); });
            return replaced + ", " +
                   outcome([&] { write({.path = dir / "f", .data = std::string(200'000, 'x'), .append = true}); });
          }) == "OsError EFBIG, OsError EFBIG");
    CHECK(aftermath(dir.path(), dir / "f") == ", old intact");
  }
}

TEST_CASE("a file that is a mount point of its own cannot be replaced, and says so", "[X06]") {
  const TempDir dir;
  put(dir / "f", "old");
  put(dir / "other", "other");
  CHECK(in_private_mounts([&]() -> std::string {
          if (::mount((dir / "other").c_str(), (dir / "f").c_str(), nullptr, MS_BIND, nullptr) != 0) {
            return "no mounts";
          }
          return outcome([&] { write({.path = dir / "f", .data = "new"}); }) + ", " +
                 outcome([&] { write({.path = dir / "f", .data = "+", .append = true}); }) + " " + get(dir / "f") +
                 " " + std::to_string(names_in(dir.path()).size());
        }) == "OsError EBUSY, ok other+ 2");
}

TEST_CASE("conditions: the file must be what it was, or must not be", "[X12][K4]") {
  const TempDir dir;
  for (const bool append : {false, true}) {
    const std::string path = dir / (append ? "a" : "f");
    CHECK(outcome([&] { write({.path = path, .data = "x", .append = append, .if_match = "e"}); }) == "Conflict");
    CHECK(outcome([&] { write({.path = path, .data = "old", .append = append, .if_absent = true}); }) == "ok");
    const std::string etag = read({.path = path}).etag;
    const Error exists = error_of([&] { write({.path = path, .data = "x", .append = append, .if_absent = true}); });
    CHECK(describe(exists) == "Conflict");
    CHECK(fact<std::string>(exists, "etag") == etag);
    CHECK(outcome([&] { write({.path = path, .data = "1", .append = append, .if_match = etag}); }) == "ok");
    const std::string now = get(path);
    const Error stale = error_of([&] { write({.path = path, .data = "2", .append = append, .if_match = etag}); });
    CHECK(describe(stale) == "Conflict");
    CHECK(fact<std::string>(stale, "etag") == stat(path).etag);
    CHECK(get(path) == now);
  }
  CHECK(names_in(dir.path()) == Names{"a", "f"});
  CHECK(outcome([&] { write({.path = dir / "f", .data = "x", .if_match = "e", .if_absent = true}); }) ==
        "InvalidParams ifAbsent");
}

TEST_CASE("of many writers with the same condition exactly one wins, every time", "[X12]") {
  const TempDir dir;
  constexpr int writers = 4;
  constexpr int rounds = 40;
  for (const bool absent : {false, true}) {
    int total = 0;
    for (int round = 0; round < rounds; ++round) {
      const std::string path = dir / (absent ? "new" + std::to_string(round) : "old");
      const std::string etag = absent ? "" : write({.path = path, .data = "start"}).stat.etag;
      std::atomic<int> won = 0;
      std::atomic<int> lost = 0;
      std::vector<std::thread> threads;
      for (int i = 0; i < writers; ++i) {
        threads.emplace_back([&, i] {
          WriteOptions options{.path = path, .data = std::string(1, static_cast<char>('a' + i)), .if_absent = absent};
          options.if_match = absent ? std::nullopt : std::optional(etag);
          const std::string text = outcome([&] { write(options); });
          won += text == "ok";
          lost += text == "Conflict";
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      CHECK(lost == writers - 1);
      total += won;
    }
    CHECK(total == rounds);
  }
}

TEST_CASE("no reader ever sees half a file") {
  const TempDir dir;
  put(dir / "f", std::string(100'000, 'a'));
  std::atomic<bool> stop = false;
  std::jthread writer([&] {
    for (int i = 0; i < 60; ++i) {
      write({.path = dir / "f", .data = std::string(100'000, static_cast<char>('a' + i % 26))});
    }
    stop = true;
  });
  std::size_t torn = 0;
  while (!stop) {
    const std::string seen = get(dir / "f");
    torn += seen != std::string(100'000, seen.empty() ? '?' : seen[0]);
  }
  CHECK(torn == 0);
}

TEST_CASE("killed at any moment, a writer leaves the old file or the new one, and no litter", "[K3]") {
  const TempDir dir;
  const std::string old(400'000, 'o');
  const std::string fresh(400'000, 'n');
  for (int i = 0; i < 12; ++i) {
    put(dir / "f", old);
    const pid_t child = ::fork();
    if (child == 0) {
      write({.path = dir / "f", .data = fresh});
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(i * 400));  // not synchronisation: a spread of moments to be killed at
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string now = get(dir / "f");
    CHECK((now == old || now == fresh));
  }
  CHECK(names_in(dir.path()).size() <= 2);  // the name lives for microseconds; hit once in a while at most
}
