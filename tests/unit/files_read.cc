// file/read: exact bytes, honest ranges, never stuck.
#include "files/read.h"

#include <thread>

#include "base/encoding.h"
#include "files/stat.h"
#include "files/write.h"
#include "files_support.h"

using namespace rex;
using namespace rex::files;
using namespace std::string_literals;

namespace {

std::string every_byte() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a file comes back byte for byte, whatever it holds", "[X19][K5]") {
  const TempDir dir;
  for (const std::string& bytes : {""s, "one\r\ntwo\rthree\n"s,
                                   "\xEF\xBB\xBF"
                                   "bom\r\n"s,
                                   "nul\0nul"s, "no end"s, "Жизнь 😀\n"s}) {
    put(dir / "f", bytes);
    const ReadResult result = read({.path = dir / "f"});
    CHECK(result.data == bytes);
    CHECK(result.from == 0);
    CHECK(result.next == static_cast<std::int64_t>(bytes.size()));
    CHECK(result.size == result.next);
    CHECK(result.etag == stat(dir / "f").etag);
    CHECK(from_base64(read({.path = dir / "f", .encoding = Encoding::base64}).data) == bytes);
  }
  put(dir / "f", every_byte());
  for (const Encoding encoding : {Encoding::base64, Encoding::latin1}) {
    const ReadResult result = read({.path = dir / "f", .encoding = encoding});
    CHECK(decode(result.data, encoding) == every_byte());
    CHECK(is_utf8(result.data));
  }
}

TEST_CASE("what is no UTF-8 is refused with its place, or replaced when asked", "[X19]") {
  const TempDir dir;
  put(dir / "latin", "caf\xE9!\n");
  const Error error = error_of([&] { read({.path = dir / "latin"}); });
  CHECK(describe(error) == "OsError EILSEQ");
  CHECK(fact<std::int64_t>(error, "offset") == 3);
  CHECK(error.message().find("base64") != std::string::npos);
  CHECK(read({.path = dir / "latin", .errors = Errors::replace}).data == "caf\uFFFD!\n");
  CHECK(read({.path = dir / "latin", .encoding = Encoding::latin1}).data == "café!\n");
  CHECK(fact<std::int64_t>(error_of([&] { read({.path = dir / "latin", .offset = 1, .length = 4}); }), "offset") == 3);
  put(dir / "cut", "abc\xE2\x82");  // at the end of a file it is no cut
  CHECK(outcome([&] { read({.path = dir / "cut"}); }) == "OsError EILSEQ");
}

TEST_CASE("ranges are exact, and end between characters") {
  const TempDir dir;
  const std::string text = "aé€😀z";  // at 0, 1, 3, 6, 10; 11 bytes
  put(dir / "f", text);
  struct {
    std::int64_t offset, length, next;
  } const rows[] = {{0, 0, 0},  {0, 1, 1},  {0, 2, 1},   {0, 3, 3},   {0, 5, 3},   {1, 4, 3},  {3, 3, 6},
                    {6, 4, 10}, {6, 5, 11}, {0, 11, 11}, {0, 99, 11}, {11, 1, 11}, {99, 1, 99}};
  for (const auto& row : rows) {
    CAPTURE(row.offset, row.length);
    const ReadResult result = read({.path = dir / "f", .offset = row.offset, .length = row.length});
    CHECK(result.from == row.offset);
    CHECK(result.next == row.next);
    CHECK(result.data == (row.offset > 11 ? ""
                                          : text.substr(static_cast<std::size_t>(row.offset),
                                                        static_cast<std::size_t>(row.next - row.offset))));
    CHECK(result.size == 11);
  }
  // A client that reads on from `next` would never get anywhere.
  CHECK(outcome([&] { read({.path = dir / "f", .offset = 6, .length = 3}); }) == "InvalidParams length");
  CHECK(read({.path = dir / "f", .offset = 7, .length = 2, .encoding = Encoding::base64}).next == 9);
}

TEST_CASE("reading on from `next` yields the file, at every step width") {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += "x€é😀\r\n";
  }
  put(dir / "f", text);
  for (std::int64_t width = 4; width < 30; ++width) {
    std::string whole;
    std::int64_t offset = 0;
    for (ReadResult part; (part = read({.path = dir / "f", .offset = offset, .length = width})).next > offset;) {
      whole += part.data;
      offset = part.next;
    }
    REQUIRE(whole == text);
  }
}

TEST_CASE("lines are counted from 1, inclusive, and keep their ends") {
  const TempDir dir;
  put(dir / "f", "one\r\ntwo\n\nfour");
  struct {
    Lines lines;
    std::string data;
    std::int64_t from, next;
  } const rows[] = {{{1, 1}, "one\r\n", 0, 5},
                    {{2, 3}, "two\n\n", 5, 10},
                    {{3, 3}, "\n", 9, 10},
                    {{4, 4}, "four", 10, 14},
                    {{1, 99}, "one\r\ntwo\n\nfour", 0, 14},
                    {{4, 99}, "four", 10, 14},
                    {{5, 5}, "", 14, 14},
                    {{99, 100}, "", 14, 14}};
  for (const auto& row : rows) {
    const ReadResult result = read({.path = dir / "f", .lines = row.lines});
    CHECK(result.data == row.data);
    CHECK(result.from == row.from);
    CHECK(result.next == row.next);
    CHECK(result.size == 14);
  }
  put(dir / "empty", "");
  CHECK(read({.path = dir / "empty", .lines = Lines{1, 1}}).data.empty());
  CHECK(outcome([&] { read({.path = dir / "f", .lines = Lines{0, 1}}); }) == "InvalidParams lines");
  CHECK(outcome([&] { read({.path = dir / "f", .lines = Lines{3, 2}}); }) == "InvalidParams lines");
  CHECK(outcome([&] { read({.path = dir / "f", .offset = 1, .lines = Lines{1, 2}}); }) == "InvalidParams lines");
}

TEST_CASE("lines are found across the pieces they are searched in") {
  const TempDir dir;
  std::string text;
  std::vector<std::size_t> starts;
  for (int i = 0; i < 300'000; ++i) {
    starts.push_back(text.size());
    text += "line " + std::to_string(i) + "\n";
  }
  put(dir / "f", text);
  for (const std::int64_t line : {1, 2, 77'777, 150'000, 299'999}) {
    const auto at = static_cast<std::size_t>(line) - 1;
    const ReadResult result = read({.path = dir / "f", .lines = Lines{line, line}});
    CHECK(result.data == text.substr(starts[at], starts[at + 1] - starts[at]));
    CHECK(result.from == static_cast<std::int64_t>(starts[at]));
  }
}

TEST_CASE("far ranges of a sparse file are exact, and all of it is refused", "[X10][K5]") {
  const TempDir dir;
  put(dir / "f", "");
  constexpr std::int64_t size = 100'000'000'000;
  if (::truncate((dir / "f").c_str(), size) != 0) {
    SKIP("this file system has no sparse files of 100 GB");
  }
  const Fd file(::open((dir / "f").c_str(), O_WRONLY | O_CLOEXEC));
  for (const std::int64_t at : {(std::int64_t{1} << 31) - 2, (std::int64_t{1} << 32) - 2, size - 4}) {
    REQUIRE(::pwrite(file.get(), "here", 4, at) == 4);
    const ReadResult result = read({.path = dir / "f", .offset = at - 1, .length = 6});
    CHECK(result.data == (at + 4 == size ? "\0here"s : "\0here\0"s));
    CHECK(result.size == size);
  }
  CHECK(read({.path = dir / "f", .offset = std::int64_t{1} << 53, .length = 6}).data.empty());
  const Error error = error_of([&] { read({.path = dir / "f"}); });
  CHECK(describe(error) == "LimitExceeded read.maxBytes");
  CHECK(fact<std::int64_t>(error, "value") == size);
  CHECK(outcome([&] { read({.path = dir / "f", .length = max_read_bytes + 1}); }) == "LimitExceeded read.maxBytes");
  CHECK(outcome([&] { read({.path = dir / "f", .lines = Lines{1, 1}}); }) == "LimitExceeded read.maxBytes");
  CHECK(outcome([&] { read({.path = dir / "f", .lines = Lines{9, 9}}); }) == "LimitExceeded read.lineScanBytes");
}

TEST_CASE("exactly the largest read is allowed") {
  const TempDir dir;
  put(dir / "f", std::string(max_read_bytes, 'x'));
  CHECK(read({.path = dir / "f"}).next == max_read_bytes);
  CHECK(read({.path = dir / "f", .lines = Lines{1, 1}}).next == max_read_bytes);
  put(dir / "f", std::string(max_read_bytes + 1, 'x'));
  CHECK(outcome([&] { read({.path = dir / "f"}); }) == "LimitExceeded read.maxBytes");
  CHECK(outcome([&] { read({.path = dir / "f", .lines = Lines{1, 1}}); }) == "LimitExceeded read.maxBytes");
  CHECK(read({.path = dir / "f", .offset = 1}).next == max_read_bytes + 1);
}

TEST_CASE("what is no file is refused at once, by name", "[TM24][K5]") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0644) == 0);
  REQUIRE(::symlink("loop", (dir / "loop").c_str()) == 0);
  REQUIRE(::symlink("fifo", (dir / "to-fifo").c_str()) == 0);
  struct {
    std::string path, expected;
  } const rows[] = {{dir / "fifo", "OsError EINVAL"},
                    {dir / "to-fifo", "OsError EINVAL"},
                    {"/dev/zero", "OsError EINVAL"},
                    {"/dev/tty", "OsError EINVAL"},
                    {dir.path(), "OsError EISDIR"},
                    {dir / "loop", "OsError ELOOP"},
                    {dir / "none", "OsError ENOENT"},
                    {dir / "fifo/x", "OsError ENOTDIR"},
                    {"", "InvalidParams path"},
                    {"a\0b"s, "InvalidParams path"},
                    {"~", "OsError ENOENT"},
                    {"~/x", "OsError ENOENT"},
                    {dir / std::string(256, 'n'), "OsError ENAMETOOLONG"},
                    {"/" + std::string(4096, 'p'), "OsError ENAMETOOLONG"}};
  for (const auto& row : rows) {
    CAPTURE(row.path);
    CHECK(outcome([&] { read({.path = row.path}); }) == row.expected);
  }
}

TEST_CASE("files of /proc are read to their end though they say they are empty", "[K5]") {
  const ReadResult status = read({.path = "/proc/self/status"});
  CHECK(status.data.starts_with("Name:"));
  CHECK(status.size == status.next);
  CHECK(read({.path = "/proc/self/status", .lines = Lines{1, 1}}).data.starts_with("Name:"));
  CHECK(read({.path = "/proc/self/status", .offset = 0, .length = 5}).data == "Name:");
}

TEST_CASE("dots and slashes mean what the kernel says", "[X01]") {
  const TempDir dir;
  put(dir / "f", "x");
  for (const char* path : {"f", "./f", ".//f", "../", "/./f"}) {
    const bool is_file = std::string_view(path).ends_with("f");
    CHECK(outcome([&] { read({.path = dir / path}); }) == (is_file ? "ok" : "OsError EISDIR"));
  }
  CHECK(outcome([&] { read({.path = dir / "f/"}); }) == "OsError ENOTDIR");
  CHECK(outcome([&] { read({.path = dir / "f/."}); }) == "OsError ENOTDIR");
}

TEST_CASE("permissions are the kernel's", "[X17]") {
  const TempDir dir;
  put(dir / "secret", "x", 0600);
  CHECK(outcome_as_nobody([&] { read({.path = dir / "secret"}); }) == "OsError EACCES");
}

TEST_CASE("a file replaced while it is read is the old one or the new one", "[X11]") {
  const TempDir dir;
  const std::string letters = "abcdefgh";
  put(dir / "f", std::string(300'000, 'a'));
  std::jthread writer([&](const std::stop_token& stop) {
    for (std::size_t i = 0; !stop.stop_requested(); ++i) {
      write({.path = dir / "f", .data = std::string(300'000, letters[i % letters.size()])});
    }
  });
  for (int i = 0; i < 100; ++i) {
    const std::string data = read({.path = dir / "f"}).data;
    CHECK((data == std::string(300'000, data[0])));
  }
}

TEST_CASE("a whole file that never stands still is a conflict, its ranges are not", "[X11]") {
  const TempDir dir;
  put(dir / "log", std::string(4 << 20, 'x'));
  std::jthread writer([&](const std::stop_token& stop) {
    const Fd file(::open((dir / "log").c_str(), O_WRONLY | O_CLOEXEC));
    while (!stop.stop_requested()) {
      std::ignore = ::pwrite(file.get(), "y", 1, 0);
    }
  });
  std::string answer = "ok";
  for (int i = 0; i < 1000 && answer == "ok"; ++i) {
    answer = outcome([&] { read({.path = dir / "log"}); });
  }
  CHECK(answer == "Conflict");
  CHECK(outcome([&] { read({.path = dir / "log", .offset = 0, .length = 4 << 20}); }) == "ok");
}

TEST_CASE("a file that shrinks under a reader is a short read", "[X11]") {
  const TempDir dir;
  put(dir / "f", std::string(2 << 20, 'x'));
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::ignore = ::truncate((dir / "f").c_str(), 10);
      std::ignore = ::truncate((dir / "f").c_str(), 2 << 20);
    }
  });
  for (int i = 0; i < 300; ++i) {
    const ReadResult result = read({.path = dir / "f", .offset = 5, .length = 1 << 20});
    REQUIRE(result.next - result.from == static_cast<std::int64_t>(result.data.size()));
  }
}
