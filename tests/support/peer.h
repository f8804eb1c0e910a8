// The other end of a Connection, for tests: sends bytes, runs the loop until an answer is there, and gives up at one
// deadline for the whole test.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "rpc/connection.h"
#include "transports/stdio.h"

namespace rex::test {

inline std::string framed(std::string_view body) {
  return "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

/// A Connection over two pipes in this very thread. The loop only runs inside until() and what is built on it.
class Peer {
 public:
  explicit Peer(rpc::Service& service, rpc::Connection::Options options = {}) {
    ::signal(SIGPIPE, SIG_IGN);
    Pipe in = make_pipe();
    Pipe out = make_pipe();
    to_ = std::move(in.write);
    from_ = std::move(out.read);
    ::fcntl(from_.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(to_.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(to_.get(), F_SETPIPE_SZ, 1 << 20);
    auto transport = transports::over_descriptors(loop.get_executor(), std::move(in.read), std::move(out.write));
    connection =
        std::make_shared<rpc::Connection>(loop.get_executor(), std::move(transport), service, std::move(options));
    spawn(loop.get_executor(), connection->run(), [this](const std::exception_ptr& escaped) {
      finished = true;
      CHECK(escaped == nullptr);
    });
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { finish(); }

  /// Ends the connection and runs the loop until every task is done: a task that waits for an Event belongs to nobody
  /// but itself, and the loop's end would not end it.
  void finish() {
    if (connection->is_closed() && finished && connection->in_flight() == 0) {
      return;
    }
    connection->close("the test is over");
    while ((!finished || connection->in_flight() > 0) && Clock::now() < deadline_) {
      loop.restart();
      loop.run_one_for(std::chrono::milliseconds(1));
    }
  }

  /// Runs the loop, and keeps reading unless `deaf`, until `condition` holds. Fails the test at the deadline.
  void until(const std::function<bool()>& condition) {
    while (!condition()) {
      REQUIRE(Clock::now() < deadline_);
      loop.restart();
      if (loop.poll() == 0 && !receive() && !condition()) {
        loop.restart();
        loop.run_one_for(std::chrono::milliseconds(1));
      }
    }
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(to_.get(), bytes.data(), bytes.size());
      if (n > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(n));
      } else {
        REQUIRE(errno == EAGAIN);
        REQUIRE(Clock::now() < deadline_);
        loop.restart();
        loop.poll();
        receive();
      }
    }
  }
  void send_framed(std::string_view body) { send(framed(body)); }

  /// The body of the next message from the connection, whichever framing it uses.
  std::string answer() {
    std::optional<std::string> body;
    until([&] { return (body = cut()).has_value(); });
    return *body;
  }
  nlohmann::json json_answer() { return nlohmann::json::parse(answer()); }

  /// Sends `body` framed, and gives the answer.
  nlohmann::json ask(std::string_view body) {
    send_framed(body);
    return json_answer();
  }
  /// Whether the same connection still answers.
  bool alive() { return ask(R"({"jsonrpc":"2.0","id":"alive?","method":"ping"})").at("id") == "alive?"; }

  void end_input() { to_.reset(); }
  void hang_up() { from_.reset(); }
  void until_finished() {
    until([this] { return finished; });
    while (receive()) {
    }
  }
  /// All that was sent by the connection and not yet taken by answer().
  [[nodiscard]] const std::string& unread() const { return received_; }

  Loop loop{1};
  std::shared_ptr<rpc::Connection> connection;
  bool finished = false;
  bool deaf = false;  // do not read

 private:
  bool receive() {
    std::array<char, 65536> buffer;
    if (deaf || !from_) {
      return false;
    }
    const ssize_t n = ::read(from_.get(), buffer.data(), buffer.size());
    if (n > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return n > 0;
  }

  std::optional<std::string> cut() {
    std::size_t start = 0;
    std::size_t size = 0;
    std::size_t skip = 0;
    if (received_.starts_with("Content-Length: ")) {
      start = received_.find("\r\n\r\n");
      if (start == std::string::npos) {
        return std::nullopt;
      }
      start += 4;
      size = std::stoul(received_.substr(16));
    } else {
      size = received_.find('\n');
      skip = 1;
    }
    if (size == std::string::npos || received_.size() < start + size + skip) {
      return std::nullopt;
    }
    std::string body = received_.substr(start, size);
    received_.erase(0, start + size + skip);
    return body;
  }

  Fd to_;
  Fd from_;
  std::string received_;
  TimePoint deadline_ = Clock::now() + std::chrono::seconds(20);
};

}  // namespace rex::test
