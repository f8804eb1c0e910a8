// A program as a transport: its bytes both ways, how it ended and what it had to say, and the end of what was let go.

#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/error.h"
#include "hosts_support.h"

using namespace rex;

namespace {

Task<> converse(Executor executor) {
  std::vector<std::string> argv{"sh", "-c", "read line; echo \"heard $line\"; cat"};
  transports::Executed cat = co_await transports::execute(executor, test::spawner(executor), std::move(argv));
  CHECK(cat.last_words().empty());
  CHECK(cat.transport->try_write("you\nmore") == 8);
  std::string heard;
  char buffer[64];
  while (heard != "heard you\nmore") {
    heard.append(buffer, co_await cat.transport->read_some(buffer));
  }
  cat.transport->close();
  CHECK(co_await cat.transport->read_some(buffer) == 0);
  CHECK(cat.transport->try_write("") == 0);
}

Task<> hear_last_words(Executor executor, std::string script, std::string expected) {
  std::vector<std::string> argv{"/bin/sh", "-c", std::move(script)};
  transports::Executed sh = co_await transports::execute(executor, test::spawner(executor), std::move(argv));
  co_await test::read_all(*sh.transport);
  CHECK(sh.last_words() == expected);
  sh.transport.reset();
  CHECK(sh.last_words() == expected);
}

Task<> hear_too_much(Executor executor) {
  std::vector<std::string> argv{"/bin/sh", "-c", "yes 'a long complaint' | head -n 200000 >&2; echo the end >&2"};
  transports::Executed sh = co_await transports::execute(executor, test::spawner(executor), std::move(argv));
  co_await test::read_all(*sh.transport);
  CHECK(sh.last_words().size() < 1200);
  CHECK(sh.last_words().ends_with("; a long complaint; the end"));
}

Task<> let_go(Executor executor, bool closed) {
  std::vector<std::string> argv{"sh", "-c", "echo $$; trap '' TERM HUP; while :; do sleep 100; done"};
  transports::Executed sh = co_await transports::execute(executor, test::spawner(executor), std::move(argv));
  char buffer[64];
  const std::size_t n = co_await sh.transport->read_some(buffer);
  const pid_t pid = std::stoi(std::string(buffer, n));
  if (closed) {
    sh.transport->close();
    Waiter waiter(executor);
    const TimePoint deadline = Clock::now() + Milliseconds(10000);
    while (::kill(pid, 0) == 0 && Clock::now() < deadline) {
      co_await waiter.until(Clock::now() + Milliseconds(10));
    }
  }
  sh.transport.reset();
  CHECK(::kill(pid, 0) != 0);
}

}  // namespace

TEST_CASE("What is written reaches the program, and what it prints comes back") {
  Loop loop{1};
  test::run(loop, converse(loop.get_executor()));
}

TEST_CASE("The end of a program is told with its code and the end of its complaints, made harmless") {
  Loop loop{1};
  test::run(loop, hear_last_words(loop.get_executor(), "exit 7", "sh exited with 7"));
  test::run(loop, hear_last_words(loop.get_executor(), "printf 'no\\033[2J such\\r\\n\\nhost' >&2; exit 1",
                                  "sh exited with 1: no\\x1b[2J such; host"));
  test::run(loop, hear_last_words(loop.get_executor(), "exec >&-; sleep 0.01; echo late >&2; exit 3",
                                  "sh exited with 3: late"));
  test::run(loop, hear_too_much(loop.get_executor()));
}

TEST_CASE("A program whose transport is let go ends, at once or after a moment to do so by itself") {
  Loop loop{1};
  test::run(loop, let_go(loop.get_executor(), false));
  test::run(loop, let_go(loop.get_executor(), true));
}
