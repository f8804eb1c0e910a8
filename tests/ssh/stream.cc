// The stream of an SSH connection: exact, fair, bounded, and gone within a moment when it is let go.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "ssh/rig.h"

using namespace rex;
using namespace rex::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr std::size_t megabyte = 1024 * 1024;

Task<> echo_beside(Transport& bulk, Transport& other, std::size_t size, int& echoes) {
  // The bulk is read to its end only after the other stream has answered many times beside it.
  for (int i = 0; i < 200; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    co_await write_everything(other, line);
    echoes += co_await read_exactly(other, line.size()) == line ? 1 : 0;
    if (size > 0) {
      const std::string part = co_await read_exactly(bulk, std::min<std::size_t>(size, 64 * 1024));
      size -= part.size();
    }
  }
}

/// Of the loop, which turns meanwhile.
Task<> a_moment(Executor executor, Milliseconds length) {
  Waiter waiter(executor);
  const TimePoint end = Clock::now() + length;
  while (Clock::now() < end) {
    co_await waiter.until(end);
  }
}

/// A listener that takes no more connections: what is sent to it is dropped, as by a black hole.
class BlackHole {
 public:
  BlackHole() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_.get(), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    for (Fd& filler : fillers_) {
      filler = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(filler.get(), reinterpret_cast<sockaddr*>(&address), size);
    }
  }
  int port = 0;

 private:
  Fd listener_;
  Fd fillers_[4];
};

}  // namespace

TEST_CASE("bulk is exact both ways at once, through every rekeying", "[T08][I9]") {
  World world("RekeyLimit 1M", "RekeyLimit 1M");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "cat");
  REQUIRE(dialled.reached.transport);
  const std::string data = noise(8 * megabyte);
  std::string back;
  auto both = [&]() -> Task<> {
    spawn(loop.get_executor(), write_everything(*dialled.reached.transport, data));
    back = co_await read_exactly(*dialled.reached.transport, data.size());
  };
  run(loop, both());
  CHECK((back == data));
  dialled.reached.transport->close();
}

TEST_CASE("two hundred megabytes are exact each way, through every rekeying", "[T08][.long]") {
  World world("RekeyLimit 1M");
  Loop loop{1};
  Dial down = dial(loop, "server", "head -c 200000000 /dev/zero | tr '\\0' x");
  REQUIRE(down.reached.transport);
  const std::string got = exchange(loop, *down.reached.transport, "");
  CHECK(got.size() == 200'000'000);
  CHECK(got.find_first_not_of('x') == std::string::npos);
  Dial up = dial(loop, "server", "head -c 200000000 | cksum");
  REQUIRE(up.reached.transport);
  const std::string data = noise(200'000'000);
  const std::string sum = exchange(loop, *up.reached.transport, data);
  CHECK(sum == output_of({"cksum"}, data));
}

TEST_CASE("a stream that is read slowly costs bounded memory, and others go on beside it", "[I9]") {
  World world;
  Loop loop{1};
  Dial bulk = dial(loop, "server", "head -c 100000000 /dev/zero");
  Dial other = dial(loop, "server", "cat");
  REQUIRE(bulk.reached.transport);
  REQUIRE(other.reached.transport);
  int echoes = 0;
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  run(loop, echo_beside(*bulk.reached.transport, *other.reached.transport, 100'000'000, echoes));
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(echoes == 200);
#ifndef REX_SANITIZED
  CHECK(after.ru_maxrss - before.ru_maxrss < 24 * 1024);  // KiB; a sanitizer keeps what was freed
#endif
}

TEST_CASE("a flood one way leaves the other way alive on the same stream", "[I9]") {
  World world;
  Loop loop{1};
  Dial dialled = dial(loop, "server", "(cat >&2) & exec head -c 20000000 /dev/zero");
  REQUIRE(dialled.reached.transport);
  Dial answered = dial(loop, "server", "head -c 20000000 /dev/zero & read x; wait; echo \"got $x\"");
  REQUIRE(answered.reached.transport);
  const std::string got = exchange(loop, *answered.reached.transport, "it\n");
  CHECK(got.size() == 20'000'000 + 7);
  CHECK(got.ends_with("got it\n"));
}

TEST_CASE("a server that stops in the midst of a rekeying holds up its writer, not the loop", "[I9]") {
  World world("RekeyLimit 1M", "RekeyLimit 1M");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "head -c 1300000 | cksum");
  REQUIRE(dialled.reached.transport);
  const std::string data = noise(1'300'000);
  std::string sum;
  bool written = false;
  auto write = [&](std::size_t from) -> Task<> {
    co_await write_everything(*dialled.reached.transport, data.substr(from));
    written = true;
  };
  auto talk = [&]() -> Task<> {
    const std::size_t begun = dialled.reached.transport->try_write(std::string_view(data).substr(0, 1'200'000));
    CHECK(begun == 1'200'000);
    // It begins to exchange keys, unseen by us as our loop does not turn, and is stopped before it goes on.
    std::this_thread::sleep_for(Milliseconds(300));
    world.server->signal(SIGSTOP);
    co_await a_moment(loop.get_executor(), Milliseconds(10));
    spawn(loop.get_executor(), write(begun));
    for (int turn = 0; turn < 10; ++turn) {
      co_await a_moment(loop.get_executor(), Milliseconds(10));
    }
    CHECK_FALSE(written);
    world.server->signal(SIGCONT);
    sum = co_await read_exactly(*dialled.reached.transport, std::string::npos);
  };
  run(loop, talk());
  CHECK(sum == output_of({"cksum"}, data));
}

TEST_CASE("a stream that nobody read for long goes on, though something was written last", "[I9]") {
  World world;
  Loop loop{1};
  Dial dialled = dial(loop, "server", "head -c 20000000 /dev/zero");
  REQUIRE(dialled.reached.transport);
  std::string got;
  auto talk = [&]() -> Task<> {
    co_await a_moment(loop.get_executor(), Milliseconds(500));  // its window is used up
    CHECK(dialled.reached.transport->try_write("x") == 1);
    got = co_await read_exactly(*dialled.reached.transport, std::string::npos);
  };
  run(loop, talk());
  CHECK(got.size() == 20'000'000);
}

TEST_CASE("what had come before a connection broke is read", "[I9]") {
  World world;
  Loop loop{1};
  Dial dialled = dial(loop, "server", "head -c 500000 /dev/zero; exec sleep 1000");
  REQUIRE(dialled.reached.transport);
  std::string got;
  auto talk = [&]() -> Task<> {
    co_await a_moment(loop.get_executor(), Milliseconds(300));
    world.server->signal(SIGKILL);
    CHECK(co_await dialled.reached.transport->gone());
    got = co_await read_exactly(*dialled.reached.transport, std::string::npos);
  };
  run(loop, talk());
  CHECK(got.size() > 100'000);  // all, unless this machine is very busy
  CHECK(has(dialled.reached.last_words(), "the connection broke"));
}

TEST_CASE("the end of what is written reaches the command, whose output goes on", "[T14]") {
  World world;
  Loop loop{1};
  Dial dialled = dial(loop, "server", "cksum; echo done");
  REQUIRE(dialled.reached.transport);
  const std::string data = noise(3 * megabyte);
  std::string got;
  auto talk = [&]() -> Task<> {
    co_await write_everything(*dialled.reached.transport, data);
    dialled.reached.transport->end_output();
    got = co_await read_exactly(*dialled.reached.transport, std::string::npos);
  };
  run(loop, talk());
  CHECK(got == output_of({"cksum"}, data) + "done\n");
  CHECK(has(dialled.reached.last_words(), "code 0"));
}

TEST_CASE("a server killed in mid-stream ends the stream, and it is said how", "[I9]") {
  World world;
  Loop loop{1};
  Dial dialled = dial(loop, "server", "cat /dev/zero");
  REQUIRE(dialled.reached.transport);
  auto talk = [&]() -> Task<> {
    const std::string some = co_await read_exactly(*dialled.reached.transport, megabyte);
    CHECK(some.size() == megabyte);
    world.server->signal(SIGKILL);
    co_await read_exactly(*dialled.reached.transport, std::string::npos);
    CHECK(co_await dialled.reached.transport->gone());
  };
  run(loop, talk());
  const std::string words = dialled.reached.last_words();
  INFO(words);
  CHECK((has(words, "the connection broke") || has(words, "the command")));  // that may still be told before the end
}

TEST_CASE("a stream over a network that swallows everything is let go at once", "[I9]") {
  World world;
  Loop loop{1};
  Dial dialled = dial(loop, "server", "cat");
  REQUIRE(dialled.reached.transport);
  run(loop, write_everything(*dialled.reached.transport, "x"));
  world.server->signal(SIGSTOP);
  const std::string data = noise(16 * megabyte);
  while (dialled.reached.transport->try_write(data) > 0) {  // as much as it takes before it is stuck
  }
  dialled.reached.transport->close();
  dialled.reached = {};  // waits for nothing
  world.server->signal(SIGCONT);
}

TEST_CASE("an attempt ends when it is no longer wanted, in whatever phase", "[T06]") {
  World world;
  BlackHole hole;
  Server silent({"sleep", "1000"}, "/dev/null");
  world.configure(world.host("silent", silent) + world.host("server", *world.server) +
                  "Host hole\nHostName 127.0.0.1\nPort " + std::to_string(hole.port) + "\n");
  Loop loop{1};
  for (const auto& [host, phase] : {std::pair<std::string, std::string>{"hole", "tcp"},
                                    {"silent", "kex"},
                                    {"server", "dns"},
                                    {"server", "host key"},
                                    {"server", "auth"},
                                    {"server", "channel"}}) {
    CAPTURE(host, phase);
    Dial dialled = dial(loop, {"", host, 0, "cat"}, {}, phase);
    REQUIRE(dialled.error);
    CHECK(dialled.error->fault() == Fault::RequestCancelled);
  }
}

TEST_CASE("a name that does not resolve, a port where nobody listens and a silent network name their phase", "[I11]") {
  World world;
  BlackHole hole;
  world.configure(
      "Host nowhere\nHostName nowhere.invalid\nHost refused\nHostName 127.0.0.1\nPort 1\n"
      "Host hole\nConnectTimeout 1\nHostName 127.0.0.1\nPort " +
      std::to_string(hole.port) + "\n");
  Loop loop{1};
  for (const auto& [host, phase, words] :
       {std::tuple<std::string, std::string, std::string>{"nowhere", "dns", "resolve"},
        {"refused", "tcp", "Connection refused"},
        {"hole", "tcp", "no answer"}}) {
    CAPTURE(host);
    Dial dialled = dial(loop, host, "true");
    REQUIRE(dialled.error);
    CHECK(dialled.error->fault() == Fault::HostUnreachable);
    CHECK(dialled.fact("phase") == phase);
    CHECK(has(dialled.fact("detail"), words));
  }
}

TEST_CASE("of a host's addresses the first that answers is taken", "[I11]") {
  World world;
  // On this machine the name leads to ::1 and 127.0.0.1, of which only the second answers.
  world.know("[localhost]:" + std::to_string(world.server->port()), "host_server.pub");
  world.configure("Host both\nHostName localhost\nPort " + std::to_string(world.server->port()) + "\n");
  Loop loop{1};
  CHECK(dial(loop, "both", "true").reached.transport);
}
