// Streams inside a connection: every byte once, within the credit, in turns, and what a peer may not do.

#include "relay/streams.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/peer.h"

using nlohmann::json;
using rex::Task;
using rex::Transport;
using rex::relay::stream_window;
using rex::relay::Streams;

namespace {

constexpr std::size_t max_before_control = (128u << 10) + (32u << 10) + 1024;

/// A connection's service that does nothing but streams; keeps those that the peer opens.
struct Streaming : rex::rpc::Service {
  Task<rex::rpc::Result> call(std::string /*method*/, json /*params*/, rex::rpc::Call& /*call*/) override {
    co_return json();
  }
  void notification(std::string method, json params, const std::shared_ptr<rex::rpc::Connection>& /*from*/) override {
    if (!streams->notification(method, params)) {
      others.push_back(method);
    }
  }
  void data(std::uint64_t id, std::string_view bytes, const std::shared_ptr<rex::rpc::Connection>& /*from*/) override {
    streams->data(id, bytes);
  }

  std::shared_ptr<Streams> streams;
  std::vector<std::unique_ptr<Transport>> opened;
  std::vector<std::string> others;
};

std::string notification(const std::string& method, const json& params) {
  return rex::test::framed(json{{"jsonrpc", "2.0"}, {"method", method}, {"params", params}}.dump());
}

std::string data(std::uint64_t stream, std::string_view bytes) {
  std::string frame;
  rex::rpc::append_data_header(frame, stream, bytes.size());
  return frame += bytes;
}

/// We are the side that was dialled; the peer is a test that writes frames by hand.
struct Rig {
  Rig() : peer(service) {
    service.streams = std::make_shared<Streams>(*peer.connection, false,
                                                [this](const json& /*what*/, std::unique_ptr<Transport> stream) {
                                                  service.opened.push_back(std::move(stream));
                                                });
    peer.send(notification("hi", json::object()));
    peer.until([this] { return service.others.size() == 1; });
    peer.connection->allow_data();
  }
  ~Rig() {
    service.opened.clear();
    service.streams->end();
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  Transport& opened(std::uint64_t id) {
    const std::size_t before = service.opened.size();
    peer.send(notification("$/stream/open", {{"stream", id}}));
    peer.until([&] { return service.opened.size() == before + 1; });
    return *service.opened.back();
  }
  /// Reads until `bytes` have come or the end, which it tells by one 0 more.
  std::string read(Transport& from, std::size_t bytes) {
    std::string all;
    bool done = false;
    rex::spawn(peer.loop.get_executor(), read_all(from, all, bytes, done));
    peer.until([&] { return done; });
    return all;
  }
  bool is_alive() {
    const std::size_t before = service.others.size();
    peer.send(notification("still there", json::object()));
    peer.until([&] { return service.others.size() > before || peer.connection->is_closed(); });
    return !peer.connection->is_closed();
  }

  Streaming service;
  rex::test::Peer peer;

 private:
  static Task<> read_all(Transport& from, std::string& all, std::size_t bytes, bool& done) {
    std::vector<char> buffer(100'000);
    while (all.size() < bytes) {
      const std::size_t n = co_await from.read_some(buffer);
      if (n == 0) {
        break;
      }
      all.append(buffer.data(), n);
    }
    done = true;
  }
};

/// What a peer was sent: bytes of each stream, and the notifications.
struct Sent {
  std::map<std::uint64_t, std::string> bytes;
  std::vector<std::uint64_t> turns;  // the stream of each frame of data
  std::vector<json> messages;

  explicit Sent(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = text.find("\r\n\r\n");
      const std::string head(text.substr(0, end));
      const std::size_t size = std::stoul(head.substr(16));
      REQUIRE(text.size() >= end + 4 + size);
      const std::string_view body = text.substr(end + 4, size);
      if (const auto at = head.find("stream="); at != std::string::npos) {
        turns.push_back(std::stoul(head.substr(at + 7)));
        bytes[turns.back()] += body;
      } else {
        messages.push_back(json::parse(body));
      }
      text.remove_prefix(end + 4 + size);
    }
  }
};

std::size_t write(Transport& to, std::string_view bytes) { return to.try_write(bytes); }

}  // namespace

TEST_CASE("Bytes of many streams come whole and in order, and an end behind them") {
  Rig rig;
  Transport& one = rig.opened(1);
  Transport& other = rig.opened(3);
  rig.peer.send(data(1, "ab") + data(3, "xy") + data(1, "cd") + data(3, "") +
                notification("$/stream/end", {{"stream", 1}}));
  CHECK(rig.read(one, 100) == "abcd");
  CHECK(rig.read(other, 2) == "xy");
  CHECK(write(one, "answer") == 6);
  one.end_output();
  rig.peer.until([&] {
    return rig.peer.connection->unsent_bytes() == 0 && rig.peer.unread().find("stream/end") != std::string::npos;
  });
  const Sent sent(rig.peer.unread());
  CHECK(sent.bytes.at(1) == "answer");
  CHECK(sent.messages.back().at("method") == "$/stream/end");
}

TEST_CASE("Nobody sends more than its credit, and credit comes back for what was read", "[M09]") {
  Rig rig;
  Transport& stream = rig.opened(1);
  const std::string big(2 * stream_window, 'x');
  std::size_t written = 0;
  rig.peer.until([&] {
    written += write(stream, std::string_view(big).substr(written));
    return written == stream_window && rig.peer.connection->unsent_bytes() == 0;
  });
  CHECK(write(stream, "x") == 0);
  rig.peer.send(notification("$/stream/credit", {{"stream", 1}, {"bytes", 1000}}));
  REQUIRE(rig.is_alive());
  CHECK(write(stream, big) == 1000);

  rig.peer.send(data(1, std::string(stream_window, 'y')));
  REQUIRE(rig.is_alive());
  CHECK(rig.read(stream, stream_window).size() == stream_window);
  rig.peer.until([&] { return rig.peer.unread().find("stream/credit") != std::string::npos; });
  std::uint64_t given = 0;
  for (const json& message : Sent(rig.peer.unread()).messages) {
    given += message.at("method") == "$/stream/credit" ? message.at("params").at("bytes").get<std::uint64_t>() : 0;
  }
  CHECK(given >= stream_window / 2);
  CHECK(given <= stream_window);
  rig.peer.send(data(1, std::string(given, 'z')));
  CHECK(rig.is_alive());
}

TEST_CASE("A peer that breaks the rules of a stream loses the connection", "[M08][M09]") {
  const std::string window(stream_window, 'x');
  for (const std::string& wrong : {
           data(1, window) + data(1, "x"),                                   // more than its credit
           notification("$/stream/end", {{"stream", 1}}) + data(1, "x"),     // behind its end
           notification("$/stream/open", {{"stream", 1}}),                   // a number in use
           notification("$/stream/open", {{"stream", 2}}),                   // a number of ours
           notification("$/stream/open", {{"stream", 0}}),                   //
           notification("$/stream/open", {{"stream", -3}}),                  //
           notification("$/stream/open", {{"stream", "3"}}),                 //
           notification("$/stream/open", json::object()),                    //
           notification("$/stream/credit", {{"stream", 1}, {"bytes", 1}}),   // more than was used
           notification("$/stream/credit", {{"stream", 1}, {"bytes", -1}}),  //
           notification("$/stream/credit", {{"stream", 1}}),                 //
           notification("$/stream/reset", {{"reason", "none"}}),             //
           notification("$/stream/reset", {{"stream", 1}}) + notification("$/stream/open", {{"stream", 1}}),  // used
           notification("$/stream/open", {{"stream", 9}}) + notification("$/stream/open", {{"stream", 7}}),   // falls
       }) {
    CAPTURE(wrong.substr(0, 200));
    Rig rig;
    rig.opened(1);
    rig.peer.send(wrong);
    rig.peer.until([&] { return rig.peer.connection->is_closed(); });
  }
}

TEST_CASE("What is under way to a stream that has ended is dropped, whatever it is") {
  Rig rig;
  rig.opened(1).close();
  rig.peer.send(data(1, "late") + notification("$/stream/credit", {{"stream", 1}, {"bytes", 5}}) +
                notification("$/stream/end", {{"stream", 1}}) + notification("$/stream/reset", {{"stream", 1}}) +
                notification("$/stream/unknown", {{"stream", 1}}) + data(77, "never"));
  CHECK(rig.is_alive());
  CHECK(rig.opened(3).try_write("on") == 2);
}

TEST_CASE("A stream that the peer resets can be read to its end and written no more") {
  Rig rig;
  Transport& stream = rig.opened(1);
  rig.peer.send(data(1, "last words") + notification("$/stream/reset", {{"stream", 1}}));
  REQUIRE(rig.is_alive());
  CHECK_THROWS_AS(write(stream, "x"), rex::Error);
  CHECK(rig.read(stream, 100) == "last words");
}

TEST_CASE("All streams end with their connection") {
  Rig rig;
  Transport& stream = rig.opened(1);
  rig.service.streams->end();
  CHECK_THROWS_AS(write(stream, "x"), rex::Error);
  CHECK(rig.read(stream, 1).empty());
  CHECK_THROWS_AS(rig.service.streams->open(json::object()), rex::Error);
}

TEST_CASE("There are a thousand streams at most, and one more is refused alone", "[M16]") {
  Rig rig;
  for (std::uint64_t id = 1; id < 2000; id += 2) {
    rig.peer.send(notification("$/stream/open", {{"stream", id}}));
  }
  rig.peer.send(notification("$/stream/open", {{"stream", 2001}}));
  REQUIRE(rig.is_alive());
  CHECK(rig.service.opened.size() == 1000);
  rig.peer.until([&] { return rig.peer.unread().find("too many streams") != std::string::npos; });
  CHECK_THROWS_AS(rig.service.streams->open(json::object()), rex::Error);
  rig.service.opened.pop_back();
  CHECK(rig.opened(2003).try_write("x") == 1);
}

TEST_CASE("Streams take turns, and control waits behind a stated amount at most", "[M16]") {
  Rig rig;
  constexpr std::size_t count = 100;
  constexpr std::size_t each = 200'000;
  std::vector<Transport*> streams;
  for (std::uint64_t id = 1; id < 2 * count; id += 2) {
    streams.push_back(&rig.opened(id));
  }
  rig.peer.deaf = true;
  const std::string bytes(each, 'x');
  std::size_t most = 0;
  std::size_t poured = 0;
  const auto pour = [&poured](Transport& to, std::string_view all) -> Task<> {
    while (!all.empty()) {
      all.remove_prefix(to.try_write(all));
      co_await to.writable();
    }
    ++poured;
  };
  for (Transport* stream : streams) {
    rex::spawn(rig.peer.loop.get_executor(), pour(*stream, bytes));
  }
  for (int turn = 0; turn < 1000; ++turn) {
    rig.peer.loop.restart();
    rig.peer.loop.poll();
  }
  CHECK(rig.peer.connection->unsent_bytes() > 0);
  rig.peer.deaf = false;
  rig.peer.until([&] {
    most = std::max(most, rig.peer.connection->unsent_bytes());
    return poured == count;
  });
  rig.peer.connection->notify("all told", json::object());
  rig.peer.until([&] { return rig.peer.unread().find("all told") != std::string::npos; });
  CHECK(most <= max_before_control);
  const Sent sent(rig.peer.unread());
  CHECK(sent.bytes.size() == count);
  // Nobody has its second hundred thousand before everybody has begun: but for the first, who found the way free.
  std::map<std::uint64_t, std::size_t> turns;
  std::size_t begun = 0;
  for (const std::uint64_t stream : sent.turns) {
    begun += turns[stream]++ == 0 ? 1 : 0;
    if (begun < count && stream > 20) {
      CHECK(turns[stream] <= 6);
    }
  }
}

TEST_CASE("A stream that nobody reads holds up no other", "[M16]") {
  Rig rig;
  rig.opened(1);
  Transport& read = rig.opened(3);
  rig.peer.send(data(1, std::string(stream_window, 'x')));
  std::size_t got = 0;
  for (int i = 0; i < 50; ++i) {
    rig.peer.send(data(3, std::string(stream_window / 4, 'y')));
    got += rig.read(read, stream_window / 4).size();
  }
  CHECK(got == 50 * (stream_window / 4));
  CHECK(rig.is_alive());
}
