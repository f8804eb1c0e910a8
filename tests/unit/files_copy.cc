// Copying a tree as a stream: what arrives is what was sent, however the stream is cut, and nothing is written
// elsewhere.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/digest.h"
#include "files/copy_stream.h"
#include "files/entry.h"
#include "files/pack.h"
#include "files/unpack.h"
#include "unit/files_support.h"

using namespace rex;
using namespace rex::files;

/// What the disk says of all that it was given, in the place of libc's.
static int disk_error = 0;
extern "C" int syncfs(int fd) noexcept {
  if (disk_error != 0) {
    errno = disk_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_syncfs, fd));
}

namespace {

std::string packed(PackOptions options, std::string_view there = "") {
  Pack pack(std::move(options));
  if (!there.empty()) {
    const std::size_t half = there.size() / 2;
    CHECK(!pack.told(there.substr(0, half)));
    REQUIRE(pack.told(there.substr(half)));
  }
  std::string stream;
  while (pack.read(stream, 1000)) {
  }
  return stream;
}

std::string told(Unpack& unpack) {
  std::string there;
  while (unpack.tell(there, 1000)) {
  }
  return there;
}

void feed(Unpack& unpack, std::string_view stream, std::size_t piece) {
  while (!stream.empty()) {
    for (bool ready = unpack.write(stream.substr(0, piece)); !ready; ready = unpack.write("")) {
    }
    stream.remove_prefix(std::min(piece, stream.size()));
  }
}

CopyResult copy(PackOptions from, UnpackOptions to, std::size_t piece = 1 << 20) {
  const std::string stream = packed(std::move(from));
  Unpack unpack(std::move(to));
  feed(unpack, stream, piece);
  REQUIRE(unpack.done());
  return unpack.result();
}

/// What a tree is, as text: names, modes, times, contents, targets.
std::string picture(const std::string& path) {
  const std::string command = "cd '" + path +
                              "' && find . -printf '%p %y %m %T@ %l\\n' | LC_ALL=C sort && "
                              "find . -type f -exec sha256sum {} + | LC_ALL=C sort";
  FILE* output = ::popen(command.c_str(), "r");
  std::string text;
  char piece[4096];
  for (std::size_t n = 0; (n = std::fread(piece, 1, sizeof piece, output)) > 0;) {
    text.append(piece, n);
  }
  ::pclose(output);
  return text;
}

void make_tree(const std::string& root) {
  for (const char* name : {"", "/d", "/d/e", "/d.x", "/empty", "/closed"}) {
    ::mkdir((root + name).c_str(), 0755);
  }
  put(root + "/file", "text\n", 0640);
  put(root + "/none", "", 0600);
  put(root + "/run", "#!/bin/sh\n", 04755);
  put(root + "/d/e/deep", std::string(700'000, 'd'));
  put(root + "/d.x/\xff\n", "name of any bytes");
  put(root + "/closed/in", "x", 0400);
  static_cast<void>(::symlink("../nowhere", (root + "/d/link").c_str()));
  static_cast<void>(::symlink("d", (root + "/way").c_str()));
  put(root + "/sparse", "begin");
  REQUIRE(::truncate((root + "/sparse").c_str(), 80 << 20) == 0);
  std::ofstream(root + "/sparse", std::ios::binary | std::ios::in).seekp(50 << 20).write("middle", 6);
  const timespec old[2] = {{0, UTIME_OMIT}, {1'000'000'000, 123'456'789}};
  ::utimensat(AT_FDCWD, (root + "/file").c_str(), old, 0);
  ::utimensat(AT_FDCWD, (root + "/way").c_str(), old, AT_SYMLINK_NOFOLLOW);
  ::utimensat(AT_FDCWD, (root + "/empty").c_str(), old, 0);
  ::chmod((root + "/closed").c_str(), 0500);
}

}  // namespace

TEST_CASE("A copied tree is the tree, its modes, times, links and holes") {
  const TempDir dir;
  make_tree(dir / "a");
  const std::string before = picture(dir / "a");
  ::chmod((dir / "a/run").c_str(), 0755);  // setuid does not travel
  const std::string expected = picture(dir / "a");
  CHECK(before != expected);
  ::chmod((dir / "a/run").c_str(), 04755);
  for (const std::size_t piece : {std::size_t{777}, std::size_t{1} << 20}) {
    const std::string to = dir / ("new/" + std::to_string(piece));
    const CopyResult result = copy({.path = dir / "a"}, {.path = to}, piece);
    CHECK(picture(to) == expected);
    CHECK((result.files == 7 && result.bytes == 5 + 10 + 700'000 + 17 + 1 + (80 << 20) && result.skipped == 0));
    CHECK(status_of(to + "/sparse").st_blocks * 512 < 4 << 20);
    std::string lines;
    for (const char* name : {"closed/in", "d/e/deep", "d.x/\xff\n", "file", "none", "run", "sparse"}) {
      lines += sha256_of_file(to + "/" + name) + "  " + name + "\n";
    }
    Sha256 hash;
    hash.update(lines);
    CHECK(result.hash == hash.finish());
  }
}

TEST_CASE("A copied file is the file, and its hash the result's") {
  const TempDir dir;
  put(dir / "a", "hello\n", 0751);
  const CopyResult result = copy({.path = dir / "a", .recursive = false}, {.path = dir / "b"});
  CHECK((get(dir / "b") == "hello\n" && (status_of(dir / "b").st_mode & 07777) == 0751));
  CHECK(result.hash == sha256_of_file(dir / "a"));
  CHECK((result.files == 1 && result.bytes == 6));
  REQUIRE(::symlink("a", (dir / "l").c_str()) == 0);
  copy({.path = dir / "l"}, {.path = dir / "m"});
  CHECK(read_link(AT_FDCWD, dir / "m") == "a");
}

TEST_CASE("What is excluded and what is no file stays behind, and the latter is counted") {
  const TempDir dir;
  make_tree(dir / "a");
  REQUIRE(::mkfifo((dir / "a/fifo").c_str(), 0644) == 0);
  const CopyResult result =
      copy({.path = dir / "a", .excludes = {"d", "sparse", "*.x", "clos*/in"}}, {.path = dir / "b"});
  CHECK(names_in(dir / "b") == std::vector<std::string>{"closed", "empty", "file", "none", "run", "way"});
  CHECK(names_in(dir / "b/closed").empty());
  CHECK(result.skipped == 1);
}

TEST_CASE("A file that becomes shorter under its copy is no file with zeros at its end") {
  for (const bool is_read : {false, true}) {  // whether the end of it is met by reading, or where a hole is looked for
    CAPTURE(is_read);
    const TempDir dir;
    const std::string source = dir / "source";
    put(source, std::string(3 << 20, 'A'));
    Pack pack({.path = source});
    std::string stream;
    REQUIRE(pack.read(stream, 1000));
    REQUIRE(::truncate(source.c_str(), is_read ? 1 << 20 : 1000) == 0);
    const auto rest = [&] {
      while (pack.read(stream, 1000)) {
      }
    };
    CHECK_THROWS_AS(rest(), Error);
  }
}

TEST_CASE("A file that grows under its copy is copied as long as it was") {
  const TempDir dir;
  put(dir / "log", std::string(1 << 20, 'A'));
  Pack pack({.path = dir / "log"});
  std::string stream;
  REQUIRE(pack.read(stream, 1000));
  std::ofstream(dir / "log", std::ios::app) << std::string(1 << 20, 'B');
  while (pack.read(stream, 1000)) {
  }
  Unpack unpack({.path = dir / "to"});
  feed(unpack, stream, 1 << 20);
  CHECK(unpack.result().bytes == 1 << 20);
  CHECK(get(dir / "to") == std::string(1 << 20, 'A'));
}

TEST_CASE("What has no size before it is read is copied as it is read") {
  const TempDir dir;
  copy({.path = "/proc/self/limits"}, {.path = dir / "to"});
  CHECK(get(dir / "to") == get("/proc/self/limits"));
}

TEST_CASE("What is no file, directory or link is neither copied by its own name nor replaced") {
  const TempDir dir;
  ::mkdir((dir / "tree").c_str(), 0700);
  put(dir / "tree/file", "text");
  static_cast<void>(::symlink("file", (dir / "tree/link").c_str()));
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_AS(packed({.path = dir / "fifo"}), Error);
  for (const char* const what : {"tree/file", "tree/link", "tree"}) {
    CAPTURE(what);
    const std::string stream = packed({.path = dir / what, .recursive = true});
    for (const bool resume : {false, true}) {
      Unpack unpack({.path = dir / "fifo", .overwrite = true, .resume = resume});
      CHECK_THROWS_AS(feed(unpack, stream, 1 << 20), Error);
    }
  }
  struct ::stat status{};
  REQUIRE(::lstat((dir / "fifo").c_str(), &status) == 0);
  CHECK(S_ISFIFO(status.st_mode));
}

TEST_CASE("[X18] a copy that is cut anywhere goes on where it was, and each byte is written once") {
  const TempDir dir;
  make_tree(dir / "a");
  const CopyResult expected = copy({.path = dir / "a"}, {.path = dir / "expected"});
  for (const std::size_t step : {263'000, 300'001, 500'000}) {  // more than the longest record
    const std::string to = dir / std::to_string(step);
    CopyResult result;
    int cuts = 0;
    std::size_t rest = 10'000'000;
    for (bool done = false; !done && cuts < 100; ++cuts) {
      Unpack unpack({.path = to, .resume = true});
      const std::string all = packed({.path = dir / "a"}, told(unpack));
      CHECK(all.size() < rest);  // every time there is less to come
      rest = all.size();
      feed(unpack, std::string_view(all).substr(0, step), 5000);
      done = unpack.done();
      if (done) {
        result = unpack.result();
      }
    }
    CHECK(cuts > 1);
    CHECK((result.files == expected.files && result.bytes == expected.bytes && result.hash == expected.hash));
    CHECK(picture(to) == picture(dir / "expected"));
  }
}

TEST_CASE("[X18] what is not the same as what is there is copied from its beginning") {
  const TempDir dir;
  const std::string file = std::string(600'000, 'a') + "end";
  put(dir / "a", file);
  const auto cut = [&] {
    Unpack unpack({.path = dir / "b", .resume = true});
    feed(unpack, std::string_view(packed({.path = dir / "a"}, told(unpack))).substr(0, 500'000), 1000);
  };
  const auto again = [&] {
    Unpack unpack({.path = dir / "b", .resume = true});
    feed(unpack, packed({.path = dir / "a"}, told(unpack)), 1000);
    REQUIRE(unpack.done());
    return unpack.result();
  };
  const std::string begun = dir / ".b.rex-copy";
  cut();
  REQUIRE(status_of(begun).st_size == 256 << 10);
  SECTION("it goes on") { CHECK(again().kept == 256 << 10); }
  SECTION("the source has changed") {
    put(dir / "a", std::string(500'000, 'b'));
    CHECK(again().kept == 0);
  }
  SECTION("the source is shorter") {
    put(dir / "a", "short");
    CHECK(again().kept == 0);
  }
  SECTION("the beginning was damaged") {
    std::ofstream(begun, std::ios::binary | std::ios::in).seekp(1000).write("x", 1);
    CHECK(again().kept == 0);
  }
  SECTION("others may write it") {
    ::chmod(begun.c_str(), 0620);
    CHECK(again().kept == 0);
    std::filesystem::remove(begun);  // which was left alone
  }
  SECTION("it has another name too") {
    REQUIRE(::link(begun.c_str(), (dir / "other").c_str()) == 0);
    CHECK(again().kept == 0);
    CHECK(get(dir / "other") == std::string(256 << 10, 'a'));
    std::filesystem::remove(begun);
    std::filesystem::remove(dir / "other");
  }
  SECTION("it is a link to what is not to be written") {
    std::filesystem::rename(begun, dir / "other");
    REQUIRE(::symlink("other", begun.c_str()) == 0);
    CHECK(again().kept == 0);
    CHECK(get(dir / "other") == std::string(256 << 10, 'a'));
    std::filesystem::remove(begun);
    std::filesystem::remove(dir / "other");
  }
  CHECK(get(dir / "b") == get(dir / "a"));
  CHECK(names_in(dir / "") == std::vector<std::string>{"a", "b"});
  CHECK(again().kept == static_cast<std::int64_t>(get(dir / "a").size()));  // all of it is there now
  put(dir / "b", "of somebody else's");
  CHECK(outcome(again) == "OsError EEXIST");
  CHECK(get(dir / "b") == "of somebody else's");
}

TEST_CASE("What goes on with a tree keeps what is the same, and leaves alone what is not its own") {
  const TempDir dir;
  make_tree(dir / "a");
  copy({.path = dir / "a"}, {.path = dir / "b"});
  put(dir / "b/d/.notes.rex-copy", "somebody's", 0600);
  put(dir / "b/.sparse.rex-copy", "begin", 0600);  // all of it is there: nothing goes on with that
  put(dir / "a/file", "TEXT\n");
  Unpack unpack({.path = dir / "b", .overwrite = true, .resume = true});
  const std::string stream = packed({.path = dir / "a"}, told(unpack));
  CHECK(stream.size() < 10'000);
  feed(unpack, stream, 1000);
  REQUIRE(unpack.done());
  const CopyResult result = unpack.result();
  CHECK(result.kept == result.bytes - 5);
  CHECK(get(dir / "b/file") == "TEXT\n");
  CHECK(get(dir / "b/d/.notes.rex-copy") == "somebody's");
  CHECK(names_in(dir / "b") == names_in(dir / "a"));
  CHECK(sha256_of_file(dir / "b/sparse") == sha256_of_file(dir / "a/sparse"));
}

TEST_CASE("[X18] what is there and was not told travels, and is compared where it would be put into place") {
  const TempDir dir;
  ::mkdir((dir / "a").c_str(), 0755);
  for (const char* name : {"big", "none"}) {
    put(dir / ("a/" + std::string(name)), name[0] == 'b' ? std::string(300'000, 'b') : "");
  }
  copy({.path = dir / "a"}, {.path = dir / "b"});
  const std::string before = picture(dir / "b");
  const auto inode = status_of(dir / "b/big").st_ino;
  const auto again = [&](bool with_telling) {
    Unpack unpack({.path = dir / "b", .resume = true});
    feed(unpack, packed({.path = dir / "a"}, with_telling ? told(unpack) : ""), 1000);
    REQUIRE(unpack.done());
    return unpack.result();
  };
  CHECK(again(false).kept == 0);
  CHECK((picture(dir / "b") == before && status_of(dir / "b/big").st_ino == inode));
  put(dir / "b/big", std::string(300'000, 'c'));
  CHECK(outcome([&] { again(false); }) == "OsError EEXIST");
  CHECK(get(dir / "b/big") == std::string(300'000, 'c'));
  std::filesystem::remove(dir / "b/big");
  CHECK(again(true).kept == 300'000);  // what had come all the same
  CHECK(picture(dir / "b") == before);
}

TEST_CASE("What was changed is known, if only a part, and what was not") {
  const TempDir dir;
  make_tree(dir / "a");
  const std::string stream = packed({.path = dir / "a"});
  const auto touched = [&](UnpackOptions options, std::size_t size) {
    Unpack unpack(std::move(options));
    outcome([&] { feed(unpack, std::string_view(stream).substr(0, size), 1000); });
    return unpack.touched();
  };
  CHECK(!touched({.path = dir / "b"}, 10));
  CHECK(!touched({.path = dir / "a/file/below"}, stream.size()));
  CHECK(!touched({.path = dir / "a/d"}, stream.size()));
  CHECK(touched({.path = dir / "b"}, 1000));
  CHECK(touched({.path = dir / "new/none"}, 1000));
  ::mkdir((dir / "c").c_str(), 0700);
  put(dir / "c/d", "in the way");
  CHECK(touched({.path = dir / "c", .overwrite = true}, stream.size()));
}

TEST_CASE("What is there is kept, or replaced one by one") {
  const TempDir dir;
  make_tree(dir / "a");
  for (const char* name : {"file", "tree", "link"}) {
    const std::string to = dir / ("to-" + std::string(name));
    if (std::string_view(name) == "tree") {
      ::mkdir(to.c_str(), 0755);
    } else if (std::string_view(name) == "link") {
      REQUIRE(::symlink("nowhere", to.c_str()) == 0);
    } else {
      put(to, "old");
    }
    CHECK(outcome([&] { copy({.path = dir / "a"}, {.path = to}); }) == "OsError EEXIST");
  }
  const std::string to = dir / "to-tree";
  put(to + "/file", "old");
  put(to + "/other", "kept");
  put(to + "/way", "a file where a link comes");
  copy({.path = dir / "a"}, {.path = to, .overwrite = true});
  CHECK((get(to + "/file") == "text\n" && get(to + "/other") == "kept" && read_link(AT_FDCWD, to + "/way") == "d"));
  CHECK(outcome([&] { copy({.path = dir / "a"}, {.path = dir / "to-file", .overwrite = true}); }) == "OsError ENOTDIR");
  CHECK(outcome([&] { copy({.path = dir / "a/file"}, {.path = to, .overwrite = true}); }) == "OsError EISDIR");
  CHECK(get(dir / "to-file") == "old");
  CHECK(outcome([&] { packed({.path = dir / "a", .recursive = false}); }) == "OsError EISDIR");
  CHECK(outcome([&] { packed({.path = dir / "none"}); }) == "OsError ENOENT");
}

TEST_CASE("[X08] a stream that means to write elsewhere is refused before it does") {
  using Kind = CopyRecord::Kind;
  const TempDir dir;
  ::mkdir((dir / "outside").c_str(), 0755);
  const CopyRecord root{.kind = Kind::directory, .mode = 0755};
  const auto file = [](const std::string& path) { return CopyRecord{.kind = Kind::file, .path = path, .mode = 0644}; };
  const CopyRecord way{.kind = Kind::link, .path = "way", .text = "../outside"};
  const std::vector<std::vector<CopyRecord>> streams = {
      {root, file("../evil")},
      {root, file("/tmp/evil")},
      {root, file("a//evil")},
      {root, file("./evil")},
      {root, file("a/../evil")},
      {root, way, file("way/evil")},
      {root, file(std::string("a\0b", 3))},
      {file("evil/")},
      {file("x")},
      {{.kind = Kind::bytes, .bytes = "x"}},
      {{}},
      {root, file("a"), file("b")},
      {root, file("a"), {.kind = Kind::end, .text = "wrong"}},
      {root, file("a"), {.kind = Kind::hole, .size = 1LL << 50}},
      {root, {.kind = Kind::file, .path = "a", .offset = 7}},
  };
  int number = 0;
  for (const std::vector<CopyRecord>& records : streams) {
    INFO("stream " << number);
    std::string stream;
    for (const CopyRecord& record : records) {
      append(stream, record);
    }
    const std::string to = dir / std::to_string(number++);
    const std::string told = outcome([&] {
      Unpack unpack({.path = to});
      unpack.write(stream);
    });
    CHECK((told == "HostProtocol" || told == "OsError ELOOP" || told == "OsError ENOTDIR"));
    CHECK(names_in(dir / "outside").empty());
    std::error_code ignored;
    if (std::filesystem::is_directory(to, ignored)) {
      for (const std::string& name : names_in(to)) {
        CHECK(name == "way");  // nothing half is left
      }
    }
  }
  CHECK(outcome([&] { Unpack({.path = dir / "x"}).write("HTTP/1.1 200 OK"); }) == "HostProtocol");
  const std::string good = packed({.path = dir / "outside"});
  for (std::size_t at = 0; at < good.size(); ++at) {  // any byte wrong: refused, or a tree after all, never a crash
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    outcome([&] {
      Unpack unpack({.path = dir / "fuzzed", .overwrite = true});
      unpack.write(bad);
    });
  }
}

TEST_CASE("A copy whose bytes do not reach the disk has failed, and says why") {
  const TempDir directory;
  put(directory / "from", "text");
  for (const auto& [error, fails] : {std::pair(EIO, true), std::pair(ENOSPC, true), std::pair(ENOSYS, false)}) {
    CAPTURE(error);
    const std::string stream = packed({.path = directory / "from"});
    Unpack unpack({.path = directory / "to", .overwrite = true});
    disk_error = error;
    if (fails) {
      try {
        unpack.write(stream);
        FAIL("it has not failed");
      } catch (const Error& refused) {
        CHECK(refused.fault() == Fault::OsError);
        CHECK(refused.message().find(error == EIO ? "Input/output error" : "No space left") != std::string::npos);
      }
    } else {
      CHECK_NOTHROW(unpack.write(stream));
    }
    disk_error = 0;
    CHECK(unpack.done() == !fails);
    CHECK(unpack.touched());
  }
}
