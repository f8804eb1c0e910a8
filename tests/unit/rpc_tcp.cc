// TCP as a transport: who may listen where, what a dial tells when it fails, and how a peer that has gone is told from
// one that only ended its input.

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "transports/tcp.h"

using namespace rex;
using transports::parse_tcp_address;
using transports::TcpAddress;
using transports::TcpListener;

namespace {

/// One loop, one listener, and what is dialled and accepted on it.
struct Net {
  Net() : listener(std::make_shared<TcpListener>(loop.get_executor(), TcpAddress{"127.0.0.1", 0})) {}

  template <class T>
  static Task<> put(Task<T> task, std::optional<T>& into) {
    into.emplace(co_await std::move(task));
  }

  /// Runs the loop until the task has ended. Throws what it throws.
  template <class T>
  T await(Task<T> task) {
    std::optional<T> result;
    bool done = false;
    std::exception_ptr failure;
    spawn(loop.get_executor(), put(std::move(task), result), [&](std::exception_ptr escaped) {
      failure = escaped;
      done = true;
    });
    while (!done) {
      REQUIRE(Clock::now() < deadline);
      loop.restart();
      loop.run_one_for(Milliseconds(10));
    }
    if (failure) {
      std::rethrow_exception(failure);
    }
    return std::move(*result);
  }

  std::unique_ptr<Transport> dial(TcpAddress to) {
    return await(transports::dial_tcp(loop.get_executor(), workers, std::move(to), deadline, cancel));
  }

  std::string read(Transport& from) {
    buffer.assign(4096, '\0');
    return buffer.substr(0, await(from.read_some(buffer)));
  }

  Loop loop{1};
  Workers workers{loop.get_executor()};
  Cancel cancel;
  std::string buffer;
  TimePoint deadline = Clock::now() + std::chrono::seconds(20);
  std::shared_ptr<TcpListener> listener;
};

/// Those of this process that are connected by TCP.
std::vector<int> tcp_sockets() {
  std::vector<int> sockets;
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.ss_family == AF_INET) {
      sockets.push_back(fd);
    }
  }
  return sockets;
}

std::string failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    std::string text(name_of(error.fault()));
    for (const auto& [name, fact] : error.facts()) {
      if (name == "phase" || name == "name") {
        text += " " + std::get<std::string>(fact);
      }
    }
    return text;
  }
  return "none";
}

}  // namespace

TEST_CASE("An address of TCP is a host and a port, and nothing else", "[T17]") {
  for (const std::string text :
       {"127.0.0.1:0", "127.0.0.1:65535", "[::1]:80", "localhost:1", "build7.example.org:22"}) {
    INFO(text);
    const auto address = parse_tcp_address(text);
    REQUIRE(address);
    CHECK(transports::to_string(*address) == text);
  }
  for (const std::string text : {"",       ":",      "127.0.0.1", "127.0.0.1:", ":80",
                                 "::1:80", "[::1]",  "[::1]80",   "[]:80",      "[127.0.0.1]:80",
                                 "a:-1",   "a:+1",   "a: 1",      "a:65536",    "a:99999999999",
                                 "a:80x",  "a b:80", "a/b:80",    "[::1:80",    "::1]:80"}) {
    INFO(text);
    CHECK_FALSE(parse_tcp_address(text));
  }
  CHECK_FALSE(parse_tcp_address(std::string_view("127.0.0.1\0:80", 13)));
}

TEST_CASE("Nobody listens beyond loopback", "[T17][G11]") {
  Net net;
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) {
    CHECK(transports::is_loopback({host, 0}));
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "::ffff:127.0.0.1", "fe80::1",
                           "localhost.evil.org", "127.1", "0x7f000001", "2130706433", "example.org", ""}) {
    INFO(host);
    CHECK_FALSE(transports::is_loopback({host, 0}));
    CHECK(failure_of([&] { TcpListener(net.loop.get_executor(), {host, 0}); }) == "NotPermitted");
  }
  CHECK(net.listener->address().port != 0);
  CHECK(failure_of([&] { TcpListener(net.loop.get_executor(), net.listener->address()); }) == "OsError EADDRINUSE");
}

TEST_CASE("Both ends send at once what they have, whatever its size", "[T15]") {
  Net net;
  const auto dialled = net.dial(net.listener->address());
  const auto accepted = net.await(net.listener->accept());
  CHECK(dialled->try_write("a question") == 10);
  CHECK(net.read(*accepted) == "a question");
  CHECK(accepted->try_write("its answer") == 10);
  CHECK(net.read(*dialled) == "its answer");
  const std::vector<int> sockets = tcp_sockets();
  CHECK(sockets.size() >= 2);
  for (const int socket : sockets) {
    int on = 0;
    socklen_t size = sizeof on;
    CHECK(::getsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, &size) == 0);
    CHECK(on == 1);
  }
}

TEST_CASE("Every address of a name is tried") {
  addrinfo* found = nullptr;
  if (::getaddrinfo("localhost", nullptr, nullptr, &found) != 0) {
    SKIP("localhost has no address here");
  }
  ::freeaddrinfo(found);
  Net net;  // on 127.0.0.1 alone; ::1 often comes first
  CHECK(net.dial({"localhost", net.listener->address().port}) != nullptr);
}

TEST_CASE("A dial that fails says in which phase") {
  Net net;
  const std::uint16_t port = net.listener->address().port;
  net.listener->close();
  net.listener.reset();
  CHECK(failure_of([&] { net.dial({"127.0.0.1", port}); }) == "HostUnreachable tcp");
  CHECK(failure_of([&] { net.dial({std::string(64, 'x') + ".invalid", port}); }) == "HostUnreachable dns");
}

TEST_CASE("A dial that nobody answers ends with its deadline, or the wish of whoever waits") {
  Net net;
  // A queue of connections that is full takes no more of them, and does not refuse them either.
  const Fd full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(::bind(full.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::listen(full.get(), 0) == 0);
  REQUIRE(::getsockname(full.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  const TcpAddress to{"127.0.0.1", ntohs(at.sin_port)};
  const auto first = net.dial(to);
  const TimePoint soon = Clock::now() + Milliseconds(50);
  CHECK(failure_of([&] {
          net.await(transports::dial_tcp(net.loop.get_executor(), net.workers, to, soon, net.cancel));
        }) == "HostUnreachable tcp");
  Timer timer(net.loop.get_executor(), Milliseconds(1));
  timer.async_wait([&net](const std::error_code&) { net.cancel.request(Cancel::Wish::stop_waiting); });
  CHECK(failure_of([&] { net.dial(to); }) == "HostUnreachable tcp");
  CHECK(failure_of([&] { net.dial(to); }) == "HostUnreachable tcp");  // the wish was there before
}

TEST_CASE("A peer that has closed is gone, and one that only ended its input is not", "[T01][T14]") {
  Net net;
  const int raw = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Fd client(raw);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(net.listener->address().port);
  REQUIRE(::connect(raw, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  const auto accepted = net.await(net.listener->accept());
  std::optional<bool> gone;
  spawn(net.loop.get_executor(), Net::put(accepted->gone(), gone));
  const auto run_for = [&](Milliseconds time) {
    net.loop.restart();
    net.loop.run_for(time);
  };

  REQUIRE(::shutdown(raw, SHUT_WR) == 0);
  CHECK(net.read(*accepted).empty());
  run_for(Milliseconds(600));  // in which it is looked for several times
  CHECK_FALSE(gone);
  CHECK(accepted->try_write("late") == 4);
  char answer[8];
  CHECK(::read(raw, answer, sizeof answer) == 4);

  client.reset();
  while (!gone) {
    REQUIRE(Clock::now() < net.deadline);
    run_for(Milliseconds(10));
  }
  CHECK(*gone);
}

TEST_CASE("What is closed ends every wait") {
  Net net;
  const auto dialled = net.dial(net.listener->address());
  const auto accepted = net.await(net.listener->accept());
  std::optional<bool> gone;
  std::optional<std::unique_ptr<Transport>> next;
  spawn(net.loop.get_executor(), Net::put(accepted->gone(), gone));
  spawn(net.loop.get_executor(), Net::put(net.listener->accept(), next));
  net.loop.restart();
  net.loop.poll();
  accepted->close();
  net.listener->close();
  while (!gone || !next) {
    REQUIRE(Clock::now() < net.deadline);
    net.loop.restart();
    net.loop.run_one_for(Milliseconds(10));
  }
  CHECK_FALSE(*gone);
  CHECK(*next == nullptr);
  CHECK(net.read(*accepted).empty());
}
