// Servers that ask, and servers that misbehave: of libssh's own making, as no real one does these things on demand.

#define SSH_SUPPRESS_DEPRECATED  // the reading of passwords, for which there is nothing else without callbacks

#include <arpa/inet.h>
#include <libssh/libssh.h>
#include <libssh/server.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ssh/rig.h"

using namespace rex;
using namespace rex::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Serves one connection in a thread.
class OddServer {
 public:
  /// What it does once a command was asked for.
  using Act = std::function<void(ssh_session, ssh_channel)>;

  OddServer(const World& world, int methods, Act act)
      : methods_(methods), act_(std::move(act)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener_.get(), 4) == 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    const int port = ntohs(address.sin_port);
    world.know("[127.0.0.1]:" + std::to_string(port), "host_server.pub");
    world.configure("Host odd\nUser me\nHostName 127.0.0.1\nPort " + std::to_string(port) + "\n");
    thread_ = std::thread([this, key = world.folder.path("host_server")] { serve(key); });
  }
  ~OddServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  OddServer(const OddServer&) = delete;
  OddServer& operator=(const OddServer&) = delete;

  /// Answers are right in this order; after each round of the second list one more is asked.
  std::string password = "right";
  std::vector<std::string> codes = {"123", "456"};
  std::atomic<int> attempts = 0;

 private:
  void serve(const std::string& key) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      return;
    }
    ssh_bind bind = ssh_bind_new();
    ssh_bind_options_set(bind, SSH_BIND_OPTIONS_HOSTKEY, key.c_str());
    ssh_session session = ssh_new();
    ssh_channel channel = nullptr;
    if (ssh_bind_accept_fd(bind, session, fd) == SSH_OK && ssh_handle_key_exchange(session) == SSH_OK) {
      bool started = false;
      while (ssh_message message = started ? nullptr : ssh_message_get(session)) {
        started = take(session, channel, message);
        ssh_message_free(message);
      }
      if (started) {
        act_(session, channel);
      }
    }
    ssh_free(session);
    ssh_bind_free(bind);
  }

  /// True when a command is to be started.
  bool take(ssh_session session, ssh_channel& channel, ssh_message message) {
    const int type = ssh_message_type(message);
    const int kind = ssh_message_subtype(message);
    if (type == SSH_REQUEST_AUTH && kind == SSH_AUTH_METHOD_PASSWORD) {
      ++attempts;
      if (password == ssh_message_auth_password(message)) {
        ssh_message_auth_reply_success(message, 0);
        return false;
      }
    } else if (type == SSH_REQUEST_AUTH && kind == SSH_AUTH_METHOD_INTERACTIVE) {
      return ask(session, message);
    } else if (type == SSH_REQUEST_CHANNEL_OPEN) {
      channel = ssh_message_channel_request_open_reply_accept(message);
      return false;
    } else if (type == SSH_REQUEST_CHANNEL && kind == SSH_CHANNEL_REQUEST_EXEC) {
      ssh_message_channel_request_reply_success(message);
      return true;
    }
    if (type == SSH_REQUEST_AUTH) {
      ssh_message_auth_set_methods(message, methods_);
    }
    ssh_message_reply_default(message);
    return false;
  }

  bool ask(ssh_session session, ssh_message message) {
    if (ssh_message_auth_kbdint_is_response(message) != 0) {
      if (codes[round_] != ssh_userauth_kbdint_getanswer(session, 0)) {
        ssh_message_auth_set_methods(message, methods_);
        ssh_message_reply_default(message);
        return false;
      }
      if (++round_ == codes.size()) {
        ssh_message_auth_reply_success(message, 0);
        return false;
      }
    } else {
      round_ = 0;
      ++attempts;
    }
    const char* prompts[] = {round_ == 0 ? "Password: " : "Code of \x1b[31mthe token: "};
    char echo[] = {static_cast<char>(round_)};
    ssh_message_auth_interactive_request(message, "Login", "Have your token at hand", 1, prompts, echo);
    return false;
  }

  int methods_;
  Act act_;
  Fd listener_;
  std::size_t round_ = 0;
  std::thread thread_;
};

void say_hello(ssh_session, ssh_channel channel) {
  ssh_channel_write(channel, "hello\n", 6);
  ssh_channel_request_send_exit_status(channel, 0);
  ssh_channel_send_eof(channel);
  ssh_channel_close(channel);
}

}  // namespace

TEST_CASE("a password is asked for, once more when it was wrong, on the one connection", "[I2][I6]") {
  World world;
  OddServer server(world, SSH_AUTH_METHOD_PASSWORD, say_hello);
  Loop loop{1};
  Dial dialled = dial(loop, "odd", "sh", {"wrong", "right"});
  REQUIRE(dialled.reached.transport);
  CHECK(exchange(loop, *dialled.reached.transport, "") == "hello\n");
  REQUIRE(dialled.questions.size() == 2);
  CHECK(dialled.questions[0].kind == "password");
  CHECK(dialled.questions[0].secret);
  CHECK(has(dialled.questions[0].text, "me at 127.0.0.1"));
  CHECK(server.attempts == 2);
  CHECK(has(dialled.reached.took, "password"));
}

TEST_CASE("each round of keyboard-interactive is a question, shown as claimed and made harmless", "[I2]") {
  World world;
  OddServer server(world, SSH_AUTH_METHOD_INTERACTIVE, say_hello);
  Loop loop{1};
  Dial dialled = dial(loop, "odd", "sh", {"123", "456"});
  REQUIRE(dialled.reached.transport);
  REQUIRE(dialled.questions.size() == 2);
  CHECK(dialled.questions[0].kind == "password");
  CHECK(dialled.questions[0].secret);
  CHECK(dialled.questions[1].kind == "otp");
  CHECK(!dialled.questions[1].secret);
  CHECK(has(dialled.questions[1].text, "\\x1b[31m"));
  CHECK(server.attempts == 1);
  bool told = false;
  for (const std::string& phase : dialled.phases) {
    told = told || has(phase, "Have your token at hand");
  }
  CHECK(told);
}

TEST_CASE("questions end at five, and at once when nobody answers", "[I2][I6]") {
  World world;
  Loop loop{1};
  {
    OddServer server(world, SSH_AUTH_METHOD_INTERACTIVE | SSH_AUTH_METHOD_PASSWORD, say_hello);
    Dial dialled = dial(loop, "odd", "sh", {"x", "x", "x", "x", "x", "x", "x"});
    REQUIRE(dialled.error);
    CHECK(dialled.questions.size() == 5);
    CHECK(dialled.fact("phase") == "auth");
  }
  OddServer server(world, SSH_AUTH_METHOD_INTERACTIVE | SSH_AUTH_METHOD_PASSWORD, say_hello);
  Dial dialled = dial(loop, "odd", "sh");
  REQUIRE(dialled.error);
  CHECK(dialled.questions.size() == 1);
  CHECK(has(dialled.fact("detail"), "nobody is there"));
}

TEST_CASE("the end of the output is told though the channel stays open, and input still flows", "[T14]") {
  World world;
  std::string got(5, '\0');
  {
    OddServer server(world, SSH_AUTH_METHOD_PASSWORD, [&](ssh_session session, ssh_channel channel) {
      ssh_channel_send_eof(channel);
      ssh_channel_read(channel, got.data(), 5, 0);
      say_hello(session, channel);
    });
    Loop loop{1};
    Dial dialled = dial(loop, "odd", "sh", {"right"});
    REQUIRE(dialled.reached.transport);
    auto talk = [&]() -> Task<> {
      const std::string nothing = co_await read_exactly(*dialled.reached.transport, 1);
      CHECK(nothing.empty());
      co_await write_everything(*dialled.reached.transport, "late\n");
      CHECK(co_await dialled.reached.transport->gone());
    };
    run(loop, talk());
  }
  CHECK(got == "late\n");  // only now is the server's thread over
}

TEST_CASE("a server that never reads costs no more than a window, and no time", "[T13]") {
  World world;
  std::atomic<bool> over = false;
  OddServer server(world, SSH_AUTH_METHOD_PASSWORD, [&](ssh_session, ssh_channel) {
    while (!over) {
      ::usleep(1000);
    }
  });
  Loop loop{1};
  Dial dialled = dial(loop, "odd", "sh", {"right"});
  REQUIRE(dialled.reached.transport);
  const std::string data = noise(1'000'000);
  std::size_t taken = 0;
  auto fill = [&]() -> Task<> {
    // Until nothing has been taken for a while: the time that is measured below begins when all is full.
    Waiter waiter(loop.get_executor());
    for (std::size_t before = 1; before != taken;) {
      before = taken;
      for (std::size_t n = 1; n > 0;) {
        n = dialled.reached.transport->try_write(data);
        taken += n;
      }
      co_await waiter.until(Clock::now() + Milliseconds(200));
    }
    rusage from{};
    rusage to{};
    ::getrusage(RUSAGE_SELF, &from);
    co_await waiter.until(Clock::now() + Milliseconds(500));
    ::getrusage(RUSAGE_SELF, &to);
    const auto used =
        (to.ru_utime.tv_sec - from.ru_utime.tv_sec) * 1'000'000 + to.ru_utime.tv_usec - from.ru_utime.tv_usec;
    CHECK(used < 250'000);  // of half a second; one that turns in circles takes all of it
  };
  run(loop, fill());
  CHECK(taken < 16'000'000);
  dialled.reached = {};
  over = true;
}
