// A pipe within this process: what a pair of sockets would do.

#include "relay/memory_pipe.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/error.h"
#include "relay/pipes.h"

using rex::Error;
using rex::Loop;
using rex::Task;
using rex::Transport;

namespace {

constexpr std::size_t most_bytes = 256u << 10;

struct Rig {
  Rig() { std::tie(one, other) = rex::relay::make_memory_pipe(loop.get_executor()); }

  void run(Task<> task) {
    rex::spawn(loop.get_executor(), std::move(task));
    loop.restart();
    loop.run();
  }

  Loop loop{1};
  std::unique_ptr<Transport> one;
  std::unique_ptr<Transport> other;
};

Task<> read_to_end(Transport& from, std::size_t at_once, std::string& all) {
  std::string buffer(at_once, '\0');
  while (const std::size_t n = co_await from.read_some(buffer)) {
    all.append(buffer, 0, n);
  }
}

Task<> write_and_end(Transport& to, std::string data) {
  co_await rex::relay::write_all(to, data);
  to.end_output();
}

Task<> note_gone(Transport& of, int& told) { told = co_await of.gone() ? 1 : 0; }

std::string numbered(std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; bytes.size() < size; ++i) {
    bytes += std::to_string(i) + "\n";
  }
  return bytes.substr(0, size);
}

}  // namespace

TEST_CASE("A memory pipe carries every byte both ways at once, in pieces of any size") {
  for (const std::size_t at_once : {std::size_t{1000}, std::size_t{100'003}, 4 * most_bytes}) {
    Rig rig;
    const std::string there = numbered(3'000'000);
    const std::string back = numbered(700'001);
    std::string got_there;
    std::string got_back;
    rex::spawn(rig.loop.get_executor(), write_and_end(*rig.one, there));
    rex::spawn(rig.loop.get_executor(), write_and_end(*rig.other, back));
    rex::spawn(rig.loop.get_executor(), read_to_end(*rig.other, at_once, got_there));
    rig.run(read_to_end(*rig.one, at_once, got_back));
    CHECK((got_there == there));
    CHECK((got_back == back));
  }
}

TEST_CASE("A memory pipe that nobody reads takes so much and no more") {
  Rig rig;
  const std::string data = numbered(3 * most_bytes);
  CHECK(rig.one->try_write(data) == most_bytes);
  CHECK(rig.one->try_write(data) == 0);
}

TEST_CASE("A closed memory pipe: what was written is read, then its end; what is written meets nobody") {
  Rig rig;
  rig.one->try_write("last words");
  int one_told = -1;
  int other_told = -1;
  std::string got;
  rex::spawn(rig.loop.get_executor(), note_gone(*rig.one, one_told));
  rex::spawn(rig.loop.get_executor(), note_gone(*rig.other, other_told));
  rig.one->close();
  rig.run(read_to_end(*rig.other, 4, got));
  CHECK(got == "last words");
  CHECK(one_told == 0);
  CHECK(other_told == 1);
  CHECK_THROWS_AS(rig.other->try_write("x"), Error);
  CHECK_THROWS_AS(rig.one->try_write("x"), Error);
}

TEST_CASE("Closing a memory pipe ends the reads at both its ends, and so does destroying it") {
  for (const bool destroyed : {false, true}) {
    Rig rig;
    std::string ignored;
    rex::spawn(rig.loop.get_executor(), read_to_end(*rig.one, 10, ignored));
    rex::spawn(rig.loop.get_executor(), read_to_end(*rig.other, 10, ignored));
    rig.loop.poll();
    if (destroyed) {
      rig.one.reset();
    } else {
      rig.one->close();
    }
    rig.loop.run();  // would not come back
    CHECK(ignored.empty());
  }
}

TEST_CASE("Whoever waits for room in a memory pipe is told that nobody reads any more") {
  for (const bool by_writer : {false, true}) {
    Rig rig;
    std::exception_ptr failure;
    rex::spawn(rig.loop.get_executor(), write_and_end(*rig.one, numbered(2 * most_bytes)),
               [&failure](std::exception_ptr its) { failure = std::move(its); });
    rig.loop.poll();
    CHECK(failure == nullptr);
    (by_writer ? rig.one : rig.other)->close();
    rig.loop.run();  // would not come back
    CHECK(failure != nullptr);
  }
}
