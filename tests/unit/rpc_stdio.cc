// Our stdin and stdout belong to the protocol from the first moment on, whatever they are.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "relay/router.h"
#include "transports/stdio.h"

using nlohmann::json;
using namespace rex;

namespace {

Task<rpc::Result> ping(json, rpc::Call&) { co_return json::object(); }

/// The life of a small server on stdin and stdout. Returns its exit code.
int serve() {
  transports::occupy_standard_streams();
  Loop loop{1};
  auto transport = transports::take_over_stdio(loop.get_executor());
  std::printf("a stray print\n");  // goes to stderr now
  std::fflush(stdout);
  std::system("echo a child prints; head -c 1 >/dev/null");  // and does not eat our input
  rpc::MethodTable table;
  table.bind("ping", &ping);
  relay::Hosts hosts("", nullptr, nullptr, nullptr);
  relay::Router router(table, hosts, std::make_shared<relay::Pipes>(), nullptr);
  auto connection =
      std::make_shared<rpc::Connection>(loop.get_executor(), std::move(transport), router, rpc::Connection::Options());
  int code = 1;
  spawn(loop.get_executor(), connection->run(), [&code](const std::exception_ptr& escaped) { code = escaped ? 2 : 0; });
  loop.run();
  return code;
}

/// Runs `serve` in a child whose descriptors `prepare` has set up, and returns its exit status.
pid_t start(const std::function<void()>& prepare) {
  std::fflush(nullptr);  // or the child would print what we have buffered
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(20);
    prepare();
    ::_exit(serve());
  }
  return pid;
}

int ended(pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return status;
}

void become(int fd, int to) { ::dup2(fd, to); }

std::string read_all(int fd) {
  std::string all;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) {
    all.append(buffer, static_cast<std::size_t>(n));
  }
  return all;
}

const std::string question = R"({"jsonrpc":"2.0","id":1,"method":"ping"})"
                             "\n";
const std::string answer = R"({"jsonrpc":"2.0","id":1,"result":{}})"
                           "\n";

Fd file_with(const std::string& text) {
  char name[] = "/tmp/rex-test-XXXXXX";
  Fd file(::mkstemp(name));
  ::unlink(name);
  write_all(file.get(), text, "write");
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace

TEST_CASE("Only frames reach the peer over pipes, and the pipes stay blocking for everyone else", "[G5]") {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  const pid_t pid = start([&] {
    become(in.read.get(), 0);
    become(out.write.get(), 1);
    in.write.reset();
    out.read.reset();
  });
  CHECK((::fcntl(in.read.get(), F_GETFL) & O_NONBLOCK) == 0);
  write_all(in.write.get(), question, "write");
  std::string got(answer.size(), '\0');
  CHECK(::read(out.read.get(), got.data(), got.size()) == static_cast<ssize_t>(got.size()));
  CHECK(got == answer);
  CHECK((::fcntl(in.read.get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK((::fcntl(out.write.get(), F_GETFL) & O_NONBLOCK) == 0);
  in.write.reset();
  out.write.reset();
  CHECK(read_all(out.read.get()).empty());
  CHECK(ended(pid) == 0);
}

TEST_CASE("A peer that closes its reading end ends us, although our input stays open", "[G6][T01]") {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  const pid_t pid = start([&] {
    become(in.read.get(), 0);
    become(out.write.get(), 1);
    out.read.reset();
    out.write.reset();
  });
  out.write.reset();
  write_all(in.write.get(), question, "write");
  char byte = 0;
  CHECK(::read(out.read.get(), &byte, 1) == 1);
  out.read.reset();
  CHECK(ended(pid) == 0);
}

TEST_CASE("Regular files and sockets serve as stdin and stdout", "[G5]") {
  const Fd input = file_with("skipped" + question);
  ::lseek(input.get(), 7, SEEK_SET);  // whoever shares the file has read this far
  const Fd output = file_with("before\n");
  ::lseek(output.get(), 0, SEEK_END);
  CHECK(ended(start([&] {
          become(input.get(), 0);
          become(output.get(), 1);
        })) == 0);
  ::lseek(output.get(), 0, SEEK_SET);
  CHECK(read_all(output.get()) == "before\n" + answer);

  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  const pid_t pid = start([&] {
    become(theirs.get(), 0);
    become(theirs.get(), 1);
    ours.reset();
    theirs.reset();
  });
  theirs.reset();
  write_all(ours.get(), question, "write");
  ::shutdown(ours.get(), SHUT_WR);
  CHECK(read_all(ours.get()) == answer);
  CHECK(ended(pid) == 0);
}

TEST_CASE("Standard descriptors may be closed or nothing from the start", "[G5]") {
  for (int closed = 0; closed < 8; ++closed) {
    CAPTURE(closed);
    const Fd input = file_with(question);
    const Fd output = file_with("");
    CHECK(ended(start([&] {
            become(input.get(), 0);
            become(output.get(), 1);
            for (int fd = 0; fd <= 2; ++fd) {
              if ((closed & 1 << fd) != 0) {
                ::close(fd);
              }
            }
          })) == 0);
    ::lseek(output.get(), 0, SEEK_SET);
    CHECK(read_all(output.get()) == ((closed & 3) == 0 ? answer : ""));
  }
  const Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK(ended(start([&] {
          become(nothing.get(), 0);
          become(nothing.get(), 1);
        })) == 0);
}
