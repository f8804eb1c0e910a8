// Names: made, removed, renamed, linked, resolved; and attributes exactly as set.
#include "files/tree.h"

#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "base/time.h"
#include "files_support.h"

using namespace rex;
using namespace rex::files;
using namespace std::string_literals;

TEST_CASE("directories are made, with parents when asked") {
  const TempDir dir;
  put(dir / "f", "x");
  struct {
    std::string path;
    bool parents;
    std::string expected;
  } const rows[] = {{dir / "a", false, "ok"},
                    {dir / "a", false, "OsError EEXIST"},
                    {dir / "a", true, "ok"},
                    {dir / "b/c/d", false, "OsError ENOENT"},
                    {dir / "b/c/d/", true, "ok"},
                    {dir / "b/c/d", true, "ok"},
                    {dir / "f", true, "OsError EEXIST"},
                    {dir / "f/g", true, "OsError ENOTDIR"},
                    {"/", true, "ok"},
                    {"/proc/nope/x", true, "OsError ENOENT"},
                    {"", true, "InvalidParams path"}};
  for (const auto& row : rows) {
    CAPTURE(row.path, row.parents);
    CHECK(outcome([&] { files::mkdir(row.path, row.parents); }) == row.expected);
  }
  CHECK(S_ISDIR(status_of(dir / "b/c/d").st_mode));
}

TEST_CASE("a tree goes, what its links lead to stays", "[X13][TM24]") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "tree/a/b/c");
  std::filesystem::create_directories(dir / "keep/d");
  put(dir / "keep/d/f", "kept");
  put(dir / "tree/a/b/c/f", "x", 0000);
  put(dir / "tree/-rf\n\xFF", "x");
  ::mkfifo((dir / "tree/fifo").c_str(), 0644);
  ::symlink("../../keep", (dir / "tree/a/to-keep").c_str());
  ::symlink((dir / "keep/d/f").c_str(), (dir / "tree/to-file").c_str());
  ::symlink("keep", (dir / "link").c_str());
  CHECK(outcome([&] { files::remove(dir / "tree"); }) == "OsError ENOTEMPTY");
  CHECK(outcome([&] { files::remove(dir / "tree", true); }) == "ok");
  CHECK(outcome([&] { files::remove(dir / "link/", true); }) == "OsError ENOTDIR");
  CHECK(outcome([&] { files::remove(dir / "link", true); }) == "ok");
  CHECK(get(dir / "keep/d/f") == "kept");
  CHECK(names_in(dir.path()) == std::vector<std::string>{"keep"});
  CHECK(outcome([&] { files::remove(dir / "keep/d/f"); }) == "ok");
  CHECK(outcome([&] { files::remove(dir / "keep/d/"); }) == "ok");
  CHECK(outcome([&] { files::remove(dir / "keep/d"); }) == "OsError ENOENT");
}

TEST_CASE("the root and dot names are not removed", "[X13][X01]") {
  for (const char* path : {"/", "//", "/.", "/..", ".", "..", "./", "/tmp/.", "/tmp/../", "/usr/.."}) {
    CAPTURE(path);
    CHECK(outcome([&] { files::remove(path, true); }) == "InvalidParams path");
  }
  CHECK(outcome([] { files::remove("", true); }) == "InvalidParams path");
}

TEST_CASE("a mount point is neither removed nor emptied", "[X13]") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "tree/a/mnt");
  std::filesystem::create_directories(dir / "data");
  put(dir / "data/f", "kept");
  CHECK(in_private_mounts([&]() -> std::string {
          // A bind mount: same device, another mount.
          if (::mount((dir / "data").c_str(), (dir / "tree/a/mnt").c_str(), nullptr, MS_BIND, nullptr) != 0) {
            return "no mounts";
          }
          const Error error = error_of([&] { files::remove(dir / "tree", true); });
          std::string text =
              describe(error) + (fact<std::string>(error, "path") == dir / "tree/a/mnt" ? "" : " elsewhere");
          text += ", " + outcome([&] { files::remove(dir / "tree/a/mnt", true); });
          ::umount2((dir / "tree/a/mnt").c_str(), MNT_DETACH);
          ::mount("none", (dir / "tree/a/mnt").c_str(), "tmpfs", 0, "size=64k");
          put(dir / "tree/a/mnt/f", "x");
          text += ", " + outcome([&] { files::remove(dir / "tree", true); });
          return text + " " + get(dir / "tree/a/mnt/f");
        }) == "OsError EBUSY, OsError EBUSY, OsError EBUSY x");
  CHECK(get(dir / "data/f") == "kept");
}

TEST_CASE("a tree deeper than there are descriptors goes, in steps of any size") {
  const TempDir dir;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{100'000}}) {
    CHECK(in_child([&]() -> std::string {
            const rlimit few{32, limit.rlim_max};
            ::setrlimit(RLIMIT_NOFILE, &few);
            Fd at(::open(dir.path().c_str(), O_PATH | O_CLOEXEC));
            for (int depth = 0; depth < 500; ++depth) {  // longer than any path may be
              const std::string name = depth == 0 ? "deep" : "directory";
              ::mkdirat(at.get(), name.c_str(), 0755);
              at.reset(::openat(at.get(), name.c_str(), O_PATH | O_CLOEXEC));
              ::mknodat(at.get(), "f", S_IFREG | 0644, 0);
            }
            Removal removal(dir / "deep", true);
            return outcome([&] {
              while (!removal.step(step)) {
              }
            });
          }) == "ok");
    CHECK(names_in(dir.path()).empty());
  }
}

TEST_CASE("a removal that fails says whether something went", "[X17]") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "tree/locked");
  put(dir / "tree/locked/f", "x");
  ::chmod((dir / "tree/locked").c_str(), 0555);
  ::chmod((dir / "tree").c_str(), 0777);
  CHECK(outcome_as_nobody([&] { files::remove(dir / "tree", true); }) == "OsError EACCES");
  put(dir / "tree/f", "x");
  CHECK(outcome_as_nobody([&] { files::remove(dir / "tree", true); }) == "OsError EACCES (unknown)");
  CHECK(names_in(dir / "tree") == std::vector<std::string>{"locked"});
}

TEST_CASE("a directory swapped for a link while its tree is removed is not followed", "[X13][TM24]") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "keep");
  for (int round = 0; round < 20; ++round) {
    put(dir / "keep/f", "kept");
    for (int i = 0; i < 20; ++i) {
      std::filesystem::create_directories(dir / ("tree/d" + std::to_string(i)));
      put(dir / ("tree/d" + std::to_string(i) + "/f"), "x");
    }
    std::jthread attacker([&](const std::stop_token& stop) {
      for (int i = 0; !stop.stop_requested(); i = (i + 1) % 20) {
        const std::string victim = dir / ("tree/d" + std::to_string(i));
        if (::rename(victim.c_str(), (dir / "aside").c_str()) == 0) {
          std::ignore = ::symlink("../keep", victim.c_str());
        }
        std::error_code lost_the_race;
        std::filesystem::remove_all(dir / "aside", lost_the_race);
      }
    });
    outcome([&] { files::remove(dir / "tree", true); });
    attacker.request_stop();
    attacker.join();
    REQUIRE(get(dir / "keep/f") == "kept");
    std::filesystem::remove_all(dir / "tree");
  }
}

TEST_CASE("a tree that others keep filling ends the removal, not the program", "[X13]") {
  const TempDir dir;
  ::mkdir((dir / "tree").c_str(), 0755);
  std::jthread other([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      const Fd file(::open((dir / "tree/f" + std::to_string(i % 1000)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    }
  });
  const std::string text = outcome([&] { files::remove(dir / "tree", true); });
  CHECK((text == "ok" || text == "OsError ENOTEMPTY (unknown)"));
}

TEST_CASE("renaming replaces only when asked", "[X14]") {
  const TempDir dir;
  const auto reset = [&] {
    std::filesystem::remove_all(dir / "x");
    std::filesystem::create_directories(dir / "x/d/sub");
    std::filesystem::create_directories(dir / "x/empty");
    put(dir / "x/a", "a");
    put(dir / "x/b", "b");
    ::symlink("a", (dir / "x/link").c_str());
  };
  struct {
    std::string from, to;
    bool overwrite;
    std::string expected;
  } const rows[] = {{"a", "new", false, "ok"},
                    {"a", "b", false, "OsError EEXIST"},
                    {"a", "b", true, "ok"},
                    {"a", "link", false, "OsError EEXIST"},
                    {"link", "l2", false, "ok"},
                    {"d", "d2", false, "ok"},
                    {"d", "empty", false, "OsError EEXIST"},
                    {"d", "empty", true, "ok"},
                    {"empty", "d", true, "OsError ENOTEMPTY"},
                    {"d", "a", true, "OsError ENOTDIR"},
                    {"a", "d", true, "OsError EISDIR"},
                    {"d", "d/sub/x", false, "OsError EINVAL"},
                    {"none", "x", false, "OsError ENOENT"},
                    {"a", "n/x", false, "OsError ENOENT"}};
  for (const auto& row : rows) {
    CAPTURE(row.from, row.to, row.overwrite);
    reset();
    CHECK(outcome([&] { files::rename(dir / ("x/" + row.from), dir / ("x/" + row.to), row.overwrite); }) ==
          row.expected);
    const bool gone = ::access((dir / ("x/" + row.from)).c_str(), F_OK) != 0;
    CHECK(gone == (row.expected == "ok" || row.from == "none"));
    CHECK((row.overwrite || get(dir / "x/b") == "b"));
  }
  CHECK(outcome([&] { files::rename("", dir / "y"); }) == "InvalidParams from");
  CHECK(outcome([&] { files::rename(dir / "x", ""); }) == "InvalidParams to");
}

TEST_CASE("renaming across file systems is the kernel's EXDEV, and neither side changes", "[X14]") {
  const TempDir dir;
  ::mkdir((dir / "mnt").c_str(), 0755);
  put(dir / "a", "a");
  CHECK(in_private_mounts([&]() -> std::string {
          if (::mount("none", (dir / "mnt").c_str(), "tmpfs", 0, "size=64k") != 0) {
            return "no mounts";
          }
          return outcome([&] { files::rename(dir / "a", dir / "mnt/a"); }) + " " +
                 outcome([&] { files::rename(dir / "a", dir / "mnt/a", true); }) + " " +
                 std::to_string(names_in(dir / "mnt").size()) + get(dir / "a");
        }) == "OsError EXDEV OsError EXDEV 0a");
}

TEST_CASE("links hold any target, and paths are resolved through them", "[K5]") {
  const TempDir dir;
  files::mkdir(dir / "d");
  files::symlink(dir / "link", "d");
  files::symlink(dir / "odd", "no\nwhere \xFF");
  files::symlink(dir / "loop", "loop");
  CHECK(files::stat(dir / "odd", false).target == "no\nwhere \xFF");
  CHECK(files::realpath(dir / "link/../link/.") == std::filesystem::canonical(dir / "d").string());
  CHECK(files::realpath("/") == "/");
  CHECK(files::realpath(".") == std::filesystem::current_path().string());
  CHECK(outcome([&] { files::realpath(dir / "odd"); }) == "OsError ENOENT");
  CHECK(outcome([&] { files::realpath(dir / "loop"); }) == "OsError ELOOP");
  CHECK(outcome([&] { files::symlink(dir / "link", "x"); }) == "OsError EEXIST");
  CHECK(outcome([&] { files::symlink(dir / "new", ""); }) == "InvalidParams target");
  CHECK(outcome([&] { files::symlink(dir / "new", "a\0b"s); }) == "InvalidParams target");
}

TEST_CASE("times of any century are kept exactly", "[K06]") {
  const TempDir dir;
  put(dir / "f", "x");
  for (const char* text : {"1901-12-13T20:45:53.000000001Z", "1969-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00Z",
                           "2038-01-19T03:14:08.123456789Z", "2200-02-28T12:00:00.5Z"}) {
    const Stat result = setattr(dir / "f", {.mtime = parse_time(text)});
    CHECK(format_time(result.mtime) == text);
    CHECK(format_time(files::stat(dir / "f").mtime) == text);
  }
  const Stat before = files::stat(dir / "f");
  const std::string far = outcome([&] { setattr(dir / "f", {.mtime = parse_time("9000-01-01T00:00:00Z")}); });
  const std::string now = format_time(files::stat(dir / "f").mtime);
  // Exact where the file system can (tmpfs, xfs), refused and unchanged where it cannot (ext4): never something else.
  CHECK(((far == "ok" && now == "9000-01-01T00:00:00Z") ||
         (far == "OsError ERANGE" && now == format_time(before.mtime))));
}

TEST_CASE("mode and owner are set as asked, or not at all") {
  const TempDir dir;
  put(dir / "f", "x");
  files::symlink(dir / "link", "f");
  CHECK(setattr(dir / "link", {.mode = 0600}).mode == 0600);
  CHECK(setattr(dir / "f", {.mode = 06755}).mode == 06755);  // explicitly, it may be given
  CHECK(setattr(dir / "f", {}).mode == 06755);
  CHECK(outcome([&] { setattr(dir / "f", {.mode = 010000}); }) == "InvalidParams mode");
  CHECK(outcome([&] { setattr(dir / "f", {.uid = 0xFFFFFFFF}); }) == "InvalidParams uid");
  CHECK(outcome([&] { setattr(dir / "f", {.gid = 0xFFFFFFFF}); }) == "InvalidParams gid");
  CHECK(outcome([&] { setattr(dir / "f", {.mtime = timespec{0, UTIME_NOW}}); }) == "InvalidParams mtime");
  CHECK(outcome([&] { setattr(dir / "none", {.mode = 0600}); }) == "OsError ENOENT");
  CHECK(outcome_as_nobody([&] { setattr(dir / "f", {.mode = 0777}); }) == "OsError EPERM");
  if (::getuid() == 0) {
    const Stat result = setattr(dir / "f", {.mode = 04711, .uid = 1234, .gid = 5678});
    CHECK(result.uid == 1234);
    CHECK(result.gid == 5678);
    CHECK(result.mode == 04711);  // the change of owner comes first, as it clears setuid
  }
}
