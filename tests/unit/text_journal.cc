// What shell/journal.h promises: every byte at its offset, a bound, and no lie about what is gone.
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <cstring>
#include <random>
#include <string>

#include "base/error.h"
#include "shell/journal.h"

namespace {

using rex::shell::Journal;
using rex::shell::Offset;

constexpr std::size_t kKiB = 1 << 10;
constexpr std::size_t kMiB = 1 << 20;

std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, size - i));
  }
  return bytes;
}

std::string visited(Journal& journal, Offset from, Offset to) {
  std::string bytes;
  journal.visit(from, to, [&](std::string_view piece) {
    bytes += piece;
    return true;
  });
  return bytes;
}

std::string read(Journal& journal, Offset offset, std::size_t size) {
  std::string bytes(size, '\0');
  bytes.resize(journal.read(offset, bytes.data(), size));
  return bytes;
}

/// All that was ever written, beside the journal that is to agree with it.
struct Reference {
  Offset start;
  std::string all = {};

  [[nodiscard]] std::string range(Offset from, Offset to) const { return all.substr(from - start, to - from); }
};

/// The disk "fills up" after `bytes`: writing beyond fails with EFBIG, as it does with ENOSPC on a full one.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("a journal that wraps again and again gives back exactly what was written [S24][C17]", "[S24][C17]") {
  const std::size_t capacity =
      GENERATE(4 * kKiB, 5000UL, 64 * kKiB, kMiB, kMiB + 1, 2 * kMiB + 12345, std::size_t{3} * kMiB);
  std::mt19937_64 random(capacity);
  Journal journal({.capacity = capacity, .start = 7});
  Reference reference{7};
  while (reference.all.size() < 3 * capacity + 2 * kMiB) {
    const std::string bytes = random_bytes(random, random() % (random() % 8 == 0 ? 200'000 : 3'000));
    journal.append(bytes);
    reference.all += bytes;
    const Offset end = reference.start + reference.all.size();
    REQUIRE(journal.end() == end);
    REQUIRE(journal.oldest() == (end - 7 > capacity ? end - capacity : 7));
    const Offset from = journal.oldest() + random() % (end - journal.oldest() + 1);
    const Offset to = from + random() % (end - from + 1);
    REQUIRE((visited(journal, from, to) == reference.range(from, to)));
    REQUIRE((read(journal, from, to - from) == reference.range(from, to)));
  }
  CHECK((visited(journal, journal.oldest(), journal.end()) == reference.range(journal.oldest(), journal.end())));
  CHECK(journal.degraded() == 0);
}

TEST_CASE("bytes read straight into the journal arrive as appended ones do [S24]", "[S24]") {
  const std::size_t capacity = GENERATE(4 * kKiB, 2 * kMiB);
  std::mt19937_64 random(1);
  Journal journal({.capacity = capacity});
  Reference reference{0};
  while (reference.all.size() < 3 * capacity) {
    const std::span<char> room = journal.writable();
    REQUIRE(!room.empty());
    REQUIRE(room.size() <= Journal::kChunk);
    const std::string bytes = random_bytes(random, random() % (room.size() + 1));
    std::memcpy(room.data(), bytes.data(), bytes.size());
    journal.commit(bytes.size());
    reference.all += bytes;
  }
  CHECK((visited(journal, journal.oldest(), journal.end()) == reference.range(journal.oldest(), journal.end())));
}

TEST_CASE("a session that says little takes a page of memory", "[journal]") {
  Journal journal;
  CHECK(journal.writable().size() <= 4 * kKiB);
  journal.append("$ ");
  CHECK(journal.writable().size() <= 4 * kKiB);
}

TEST_CASE("journals that share a budget keep every byte, and give back what they took", "[journal]") {
  const std::size_t capacity = GENERATE(64 * kKiB, kMiB, 2 * kMiB + 12345);
  const auto memory = std::make_shared<rex::shell::MemoryBudget>(kMiB + 100 * kKiB);
  {
    std::mt19937_64 random(capacity);
    Journal first({.capacity = capacity, .memory = memory});
    Journal second({.capacity = capacity, .memory = memory});
    Journal third({.capacity = capacity, .memory = memory});
    Reference all{0};
    while (all.all.size() < 2 * capacity + 2 * kMiB) {
      const std::string bytes = random_bytes(random, random() % 100'000);
      all.all += bytes;
      for (Journal* each : {&first, &second, &third}) {
        each->append(bytes);
        const Offset end = each->end();
        REQUIRE(end == all.all.size());
        REQUIRE(each->oldest() == (end > capacity ? end - capacity : 0));
        const Offset from = each->oldest() + random() % (end - each->oldest() + 1);
        REQUIRE((read(*each, from, 50'000) == all.range(from, std::min<Offset>(end, from + 50'000))));
      }
      REQUIRE(memory->left() <= kMiB + 100 * kKiB);
    }
    CHECK((visited(third, third.oldest(), third.end()) == all.range(third.oldest(), third.end())));
    CHECK(third.degraded() == 0);
  }
  CHECK(memory->left() == kMiB + 100 * kKiB);
}

TEST_CASE("without budget and without a disk the least is kept, and the loss told", "[journal]") {
  const auto memory = std::make_shared<rex::shell::MemoryBudget>(0);
  Journal journal({.capacity = kMiB, .spool_directory = "/nonexistent", .memory = memory});
  journal.append(std::string(kMiB, 'a') + "end");
  CHECK(journal.degraded() == ENOENT);
  CHECK(journal.end() == kMiB + 3);
  CHECK(journal.end() - journal.oldest() == Journal::kMinMemory);
  CHECK(visited(journal, journal.end() - 3, journal.end()) == "end");
}

TEST_CASE("offsets stay exact near 2^32, 2^53 and 2^63 [L14]", "[L14]") {
  const Offset start = (Offset{1} << GENERATE(32, 53, 63)) - 1'500'000;
  const std::size_t capacity = GENERATE(4 * kKiB, kMiB, 2 * kMiB);
  std::mt19937_64 random(start);
  Journal journal({.capacity = capacity, .start = start});
  Reference reference{start};
  CHECK(journal.oldest() == start);
  CHECK(journal.end() == start);
  for (int i = 0; i < 40; ++i) {
    const std::string bytes = random_bytes(random, 100'000);
    journal.append(bytes);
    reference.all += bytes;
  }
  REQUIRE(journal.end() == start + 4'000'000);
  CHECK(journal.oldest() == journal.end() - capacity);
  CHECK((visited(journal, journal.oldest(), journal.end()) == reference.range(journal.oldest(), journal.end())));
}

TEST_CASE("nothing below the oldest byte is ever returned, and nothing beyond the end [C17]", "[C17]") {
  const std::size_t capacity = GENERATE(4 * kKiB, 2 * kMiB);
  Journal journal({.capacity = capacity});
  CHECK(read(journal, 0, 10).empty());
  journal.append(std::string(3 * capacity, 'x'));
  const Offset oldest = journal.oldest();
  CHECK(read(journal, 0, 10).empty());
  CHECK(read(journal, oldest - 1, 10).empty());
  CHECK(read(journal, oldest, 10).size() == 10);
  CHECK(read(journal, journal.end() - 3, 10).size() == 3);
  CHECK(read(journal, journal.end(), 10).empty());
  CHECK(read(journal, journal.end() + 5, 10).empty());
  CHECK(visited(journal, 0, oldest).empty());
  CHECK(visited(journal, 0, oldest + 4) == "xxxx");
  CHECK(visited(journal, journal.end() - 2, journal.end() + 100) == "xx");
}

TEST_CASE("a visitor that has seen enough is asked no further", "[journal]") {
  Journal journal({.capacity = 2 * kMiB});
  journal.append(std::string(2 * kMiB, 'x'));
  std::size_t seen = 0;
  const Offset next = journal.visit(0, journal.end(), [&](std::string_view piece) {
    seen += piece.size();
    return false;
  });
  CHECK(next == seen);
  CHECK(seen < kMiB + 1);
}

TEST_CASE("a disk that fills up costs history, never output [C15]", "[C15]") {
  std::mt19937_64 random(15);
  Journal journal({.capacity = 8 * kMiB});
  Reference reference{0};
  {
    const FileSizeLimit limit(3 * kMiB + 1000);
    while (journal.degraded() == 0 && reference.all.size() < 8 * kMiB) {
      const std::string bytes = random_bytes(random, 50'000);
      journal.append(bytes);
      reference.all += bytes;
      CHECK((visited(journal, journal.oldest(), journal.end()) == reference.range(journal.oldest(), journal.end())));
    }
  }
  CHECK(journal.degraded() == EFBIG);
  CHECK(journal.oldest() > 0);
  CHECK(journal.end() - journal.oldest() <= kMiB);
  CHECK(journal.end() - journal.oldest() >= kMiB / 2);
  for (int i = 0; i < 100; ++i) {
    const std::string bytes = random_bytes(random, random() % 100'000);
    journal.append(bytes);
    reference.all += bytes;
    REQUIRE(journal.end() == reference.all.size());
    REQUIRE((visited(journal, 0, journal.end()) == reference.range(journal.oldest(), journal.end())));
  }
  CHECK(journal.end() - journal.oldest() == kMiB);
}

TEST_CASE("a spool directory that does not exist costs history, never output [C15]", "[C15]") {
  Journal journal({.capacity = 8 * kMiB, .spool_directory = "/nonexistent"});
  journal.append(std::string(kMiB, 'a'));
  CHECK(journal.oldest() == 0);
  CHECK(journal.degraded() == 0);
  journal.append(std::string(kMiB, 'b'));
  CHECK(journal.degraded() == ENOENT);
  CHECK(journal.end() == 2 * kMiB);
  CHECK((visited(journal, 0, journal.end()) == std::string(kMiB, 'b')));
}

TEST_CASE("a journal smaller than the least one is refused by name", "[journal]") {
  try {
    Journal journal({.capacity = 4 * kKiB - 1});
    FAIL("accepted");
  } catch (const rex::Error& error) {
    CHECK(error.fault() == rex::Fault::InvalidParams);
  }
}
