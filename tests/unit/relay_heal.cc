// What lets a link heal: how silence is judged, how long is waited before a dial, and what a client has beyond a link.

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "relay/holdings.h"
#include "relay/pause.h"
#include "relay/silence.h"

using namespace std::chrono_literals;
using nlohmann::json;
using rex::Error;
using rex::Fault;
using rex::Milliseconds;
using rex::TimePoint;
using rex::relay::Holdings;
using rex::relay::Silence;
using Finding = rex::relay::Silence::Finding;

namespace {

/// A machine whose time we make: awake it passes on both clocks, asleep on one.
struct Machine {
  Silence silence{10s, TimePoint{}, 5s};
  TimePoint now{};
  Milliseconds booted{5s};

  Finding after(Milliseconds awake, bool heard = false, Milliseconds asleep = 0ms, bool holding_back = false) {
    now += awake;
    booted += awake + asleep;
    return silence.look(now, booted, heard, holding_back);
  }
};

}  // namespace

TEST_CASE("A neighbour that says nothing is asked, doubted and given up, by the third interval") {
  Machine machine;
  CHECK(machine.after(10s) == Finding::silent);
  CHECK(machine.after(10s) == Finding::degraded);
  CHECK(machine.after(10s) == Finding::lost);
  CHECK(machine.silence.lasted() == 30s);
}

TEST_CASE("Whatever is heard begins anew") {
  Machine machine;
  machine.after(10s);
  machine.after(10s);
  CHECK(machine.after(10s, true) == Finding::heard);
  CHECK(machine.after(10s) == Finding::silent);
}

TEST_CASE("Whoever was stopped itself, or reads nothing, raises no alarm", "[T19]") {
  Machine machine;
  for (int i = 0; i < 10; ++i) {
    CHECK(machine.after(300s) == Finding::unknown);
    CHECK(machine.after(10s, false, 0ms, true) == Finding::unknown);
  }
  CHECK(machine.after(10s) == Finding::silent);
}

TEST_CASE("After a sleep of hours the neighbour is asked at once, and soon given up if it does not answer", "[F2]") {
  Machine machine;
  machine.after(10s);
  machine.after(10s);
  CHECK(machine.after(10s, false, 8h) == Finding::silent);
  CHECK(machine.silence.pause() <= rex::relay::patience_after_sleep / 3);
  SECTION("it answers") {
    CHECK(machine.after(machine.silence.pause(), true) == Finding::heard);
    CHECK(machine.silence.pause() == 10s);
  }
  SECTION("it does not") {
    CHECK(machine.after(machine.silence.pause()) == Finding::silent);
    CHECK(machine.after(machine.silence.pause()) == Finding::degraded);
    CHECK(machine.after(machine.silence.pause()) == Finding::lost);
    CHECK(machine.silence.lasted() <= rex::relay::patience_after_sleep);
  }
}

TEST_CASE("What was heard before a sleep says nothing of after it", "[F2]") {
  Machine machine;
  CHECK(machine.after(5s, true, 8h) == Finding::silent);
}

TEST_CASE("Pauses double up to the longest, and no two are surely the same") {
  rex::relay::Pause pause;
  Milliseconds most = rex::relay::first_pause;
  for (int i = 0; i < 10; ++i) {
    CHECK(pause.most() == most);
    const Milliseconds next = pause.next();
    CHECK(next <= most);
    CHECK(next > most * 3 / 4 - 1ms);
    most = std::min(most * 2, rex::relay::longest_pause);
  }
  pause.begin_anew();
  CHECK(pause.most() == rex::relay::first_pause);
}

TEST_CASE("What only a person can help is not dialled again by itself") {
  CHECK(rex::relay::is_worth_another_dial(rex::host_unreachable("tcp", "no answer")));
  CHECK_FALSE(rex::relay::is_worth_another_dial(rex::host_unreachable("auth", "a question")));
  Error from_afar = Error(Fault::HostUnreachable, "auth").with("phase", rex::RawJson{"\"auth\""});
  CHECK_FALSE(rex::relay::is_worth_another_dial(from_afar));
  CHECK_FALSE(rex::relay::is_worth_another_dial(Error(Fault::HostKeyRejected, "changed")));
  CHECK_FALSE(rex::relay::is_worth_another_dial(Error(Fault::HostNotFound, "taken out of the file")));
}

namespace {

const json attach{{"session", "s"}, {"offset", 10}, {"window", 4096}, {"host", "b"}};

json attached(const char* far, const char* created = "then") {
  return {{"attachment", far}, {"offset", 10}, {"info", {{"createdAt", created}}}};
}

json piece(std::int64_t offset, std::int64_t next) { return {{"offset", offset}, {"next", next}}; }

}  // namespace

TEST_CASE("A stream goes on behind what was told of it, with what was acknowledged of that") {
  Holdings holdings;
  holdings.made("session/attach", attach, attached("a1"), "1:a1");
  CHECK(holdings.told("1:a1", "session/output", piece(10, 20)));
  holdings.acknowledged("1:a1", 15);
  holdings.lost();
  const json again = holdings.to_resume(holdings.streams().at("1:a1"));
  CHECK(again ==
        json{{"session", "s"}, {"offset", 20}, {"window", 4096}, {"host", "b"}, {"resumed", true}, {"acked", 15}});
  CHECK(holdings.resumed("1:a1", attached("a7")));
  CHECK(holdings.local_id("a7") == "1:a1");
  CHECK_FALSE(holdings.told("1:a1", "session/output", piece(19, 25)));
  CHECK_FALSE(holdings.told("1:a1", "session/output", piece(21, 25)));
  json gap = piece(30, 31);
  gap["gap"] = {{"from", 20}, {"to", 30}};
  CHECK(holdings.told("1:a1", "session/output", gap));
  CHECK(holdings.streams().at("1:a1").acked == 25);  // what was lost takes up no window
  json end = piece(31, 31);
  end["eof"] = true;
  CHECK(holdings.told("1:a1", "session/output", end));
  CHECK(holdings.is_empty());
  CHECK(holdings.local_id("a7") == "1:a1");  // for the events behind its end
}

TEST_CASE("A stream that did not say where it begins takes up no window for what was before") {
  Holdings holdings;
  holdings.made("session/attach", attach, {{"attachment", "a1"}}, "1:a1");
  CHECK(holdings.told("1:a1", "session/output", piece(500, 520)));
  CHECK(holdings.streams().at("1:a1").acked == 500);
  holdings.made("session/attach", attach, {{"attachment", "a2"}}, "1:a2");
  holdings.lost();
  CHECK(holdings.resumed("1:a2", {{"attachment", "a3"}, {"offset", 500}}));
  CHECK(holdings.streams().at("1:a2").acked == 500);
}

TEST_CASE("Nobody is told what comes of another session by the same name, or of a stream that was let go") {
  Holdings holdings;
  holdings.made("session/attach", attach, attached("a1"), "1:a1");
  holdings.made("session/subscribe", attach, {{"attachment", "a2"}}, "1:a2");
  holdings.lost();
  CHECK_FALSE(holdings.resumed("1:a1", attached("a8", "now")));
  CHECK(holdings.is_nobodys("a8"));
  CHECK(holdings.resumed("1:a2", {{"attachment", "a3"}}));
  CHECK(holdings.forget("1:a2"));
  CHECK_FALSE(holdings.local_id("a3"));
  holdings.lost();
  CHECK_FALSE(holdings.is_nobodys("a8"));
  CHECK_FALSE(holdings.resumed("1:a2", {{"attachment", "a9"}}));
  CHECK(holdings.is_nobodys("a9"));
}

TEST_CASE("A path waits for the first of its names that is not there") {
  Holdings holdings;
  holdings.connected("", {{"name", "b"}, {"url", "x"}, {"progressToken", 1}});
  holdings.connected("b", {{"name", "c"}, {"url", "x"}, {"host", "b"}});
  CHECK(holdings.missing_on("b/c/d") == nullptr);
  CHECK_FALSE(holdings.names().front().params.contains("progressToken"));
  holdings.lost();
  REQUIRE(holdings.missing_on("b/c/d") != nullptr);
  CHECK(holdings.missing_on("b/c/d")->path == "b");
  CHECK(holdings.missing_on("bc") == nullptr);
  CHECK(holdings.missing_on("") == nullptr);
  holdings.name_is_there("b");
  CHECK(holdings.missing_on("b") == nullptr);
  CHECK(holdings.missing_on("b/c")->path == "b/c");
  holdings.disconnected("b");
  CHECK(holdings.is_empty());
}

TEST_CASE("So many streams are had again, and whether one more would be is known before it is asked for") {
  Holdings holdings;
  for (std::size_t i = 0; i < rex::relay::max_held; ++i) {
    CHECK_FALSE(holdings.is_full_of_streams());
    CHECK(holdings.is_full_of_streams(rex::relay::max_held - i));  // with those that are being opened
    holdings.made("session/subscribe", {{"session", "s"}}, {{"attachment", "a"}}, std::to_string(i));
  }
  CHECK(holdings.is_full_of_streams());
  holdings.forget("7");
  CHECK_FALSE(holdings.is_full_of_streams());
}

TEST_CASE("Whoever lets a host go lets go of the streams behind it, and of no other") {
  Holdings holdings;
  holdings.connected("", {{"name", "b"}, {"url", "x"}});
  holdings.made("session/attach", attach, attached("a1"), "1:a1");
  holdings.made("session/subscribe", {{"session", "s"}, {"host", "bc"}}, {{"attachment", "a2"}}, "1:a2");
  holdings.name_is_gone("b");
  CHECK(holdings.names().empty());
  CHECK(holdings.streams().size() == 2);  // whose end is told when they are asked for
  holdings.disconnected("");
  CHECK(holdings.streams().size() == 2);
  holdings.disconnected("b");
  CHECK(holdings.streams().size() == 1);
  CHECK(holdings.streams().contains("1:a2"));
}

TEST_CASE("A machine that was made is not made again, and takes the name of one that could be had again") {
  Holdings holdings;
  holdings.connected("", {{"name", "b"}, {"url", "x"}, {"deployment", nullptr}});
  CHECK(holdings.names().size() == 1);
  holdings.connected("", {{"name", "b"}, {"deployment", "docker"}});
  CHECK(holdings.names().empty());
}
