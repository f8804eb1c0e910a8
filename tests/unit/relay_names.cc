// How what a far host says is seen from here: names before its names, ids that say which way they came, output that
// goes on where it was.

#include "relay/names.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "relay/continuity.h"
#include "rpc/message.h"

using nlohmann::json;
using rex::Error;
using rex::Fault;
using rex::RawJson;
using rex::relay::Continuity;
using rex::relay::far_attachment;
using rex::relay::local_attachment;
using rex::relay::rewrite;
using rex::relay::rewritten;

namespace {

/// As a tree; and a result as text, which must come to the same.
json seen(json payload, bool always = false) {
  const json before = payload;
  rewrite(payload, "a", 7, always);
  if (!always) {
    for (const int indent : {-1, 2}) {
      CHECK(json::parse(rewritten(before.dump(indent), "a", 7)) == payload);
    }
  }
  return payload;
}

}  // namespace

TEST_CASE("A host is written as its receiver would, in everything that names one") {
  CHECK(seen({{"host", ""}}) == json{{"host", "a"}});
  CHECK(seen({{"host", "b/c"}}) == json{{"host", "a/b/c"}});
  CHECK(seen({{"x", 1}}) == json{{"x", 1}});
  CHECK(seen({{"x", 1}}, true) == json{{"x", 1}, {"host", "a"}});
  CHECK(seen({{"sessions", {{{"host", ""}}, {{"host", "b"}}, 5}}}) ==
        json{{"sessions", {{{"host", "a"}}, {{"host", "a/b"}}, 5}}});
  CHECK(seen({{"info", {{"host", "b"}}}, {"result", {{"host", ""}}}}) ==
        json{{"info", {{"host", "a/b"}}}, {"result", {{"host", "a"}}}});
  CHECK(seen({{"hosts", {{{"host", ""}, {"name", "n"}}}}}) == json{{"hosts", {{{"host", "a"}, {"name", "n"}}}}});
}

TEST_CASE("What is not ours to read is passed on as it is") {
  for (const json& payload : {json(), json(5), json("text"), json::array({1, {{"host", "b"}}}), json::object()}) {
    CHECK(seen(payload) == payload);
  }
  const json labels{{"labels", {{"host", "b"}, {"attachment", "x"}}}};
  CHECK(seen(labels) == labels);
  CHECK(seen({{"sessions", 5}, {"info", "x"}}) == json{{"sessions", 5}, {"info", "x"}});
}

TEST_CASE("A result is passed on as it was written, but for what is ours to write", "[M08]") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"n":12345678901234567890123,"x":1.0e0,"s":"\u0041\"]}","host":"b"})",
       R"({"n":12345678901234567890123,"x":1.0e0,"s":"\u0041\"]}","host":"a/b"})"},
      {R"({ "h\u006fst" : "\u0062" , "z" : [ { "host" : "b" } ] })",
       R"({ "h\u006fst" : "a/b" , "z" : [ { "host" : "b" } ] })"},
      {R"({"host":"b","host":"c"})", R"({"host":"a/b","host":"a/c"})"},
      {R"({"host":{"host":["}",{}]},"attachment":"\\"})", R"({"host":"a","attachment":"7:\\"})"},
      {R"({"sessions":[[{"host":"b"}],"host",{"host":"b"},{}],"hosts":[]})",
       R"({"sessions":[[{"host":"b"}],"host",{"host":"a/b"},{}],"hosts":[]})"},
      {R"("host")", R"("host")"},
  };
  for (const auto& [there, here] : rows) {
    CAPTURE(there);
    CHECK(rewritten(there, "a", 7) == here);
  }
}

TEST_CASE("A host of the wrong type is no way to hide where something comes from", "[M08]") {
  for (const json& wrong : {json(5), json(), json::array(), json::object()}) {
    CHECK(seen({{"host", wrong}}).at("host") == "a");
  }
}

TEST_CASE("An attachment's id says its channel, at every hop anew") {
  CHECK(seen({{"attachment", "a1"}}).at("attachment") == "7:a1");
  CHECK(seen({{"info", {{"attachment", "7:a1"}}}}).at("info").at("attachment") == "7:7:a1");
  CHECK(far_attachment("7:a1") == std::pair<std::uint64_t, std::string>(7, "a1"));
  CHECK(far_attachment("7:8:a1") == std::pair<std::uint64_t, std::string>(7, "8:a1"));
  CHECK(far_attachment("7:").value().second.empty());
  for (const char* own : {"", "a1", ":a1", "7", "-7:a1", "7a:1", " 7:a1", "99999999999999999999:a1"}) {
    CAPTURE(own);
    CHECK_FALSE(far_attachment(own).has_value());
  }
  CHECK(local_attachment(1, std::string(100'000, 'x')).size() < 300);
}

TEST_CASE("An error keeps its kind, its facts and whether it took effect, and says where it arose") {
  Error error = Error(Fault::SessionBusy, "busy").executed(rex::Executed::unknown).retryable();
  error =
      std::move(error).with("job", RawJson{"\"17\""}).with("host", RawJson{"\"b\""}).with("hop", RawJson{"\"b/c\""});
  error = std::move(error).with("result", RawJson{R"({"host":"b","output":"x"})"});
  const json there = json::parse(rex::rpc::error_object(rewritten(error, "a")));
  CHECK(there.at("code") == 1104);
  CHECK(there.at("message") == "busy");
  CHECK(there.at("data") == json{{"type", "SessionBusy"},
                                 {"executed", "unknown"},
                                 {"retryable", true},
                                 {"job", "17"},
                                 {"host", "a/b"},
                                 {"hop", "a/b/c"},
                                 {"result", {{"host", "a/b"}, {"output", "x"}}}});
  const json here = json::parse(rex::rpc::error_object(rewritten(Error(Fault::OsError, "x"), "a")));
  CHECK(here.at("data").at("host") == "a");
  const Error odd = Error(Fault::OsError, "x").with("host", RawJson{"5"}).with("result", RawJson{"[1]"});
  CHECK(json::parse(rex::rpc::error_object(rewritten(odd, "a"))).at("data").at("host") == "a");
}

TEST_CASE("Output goes on where it was, for each attachment by itself, or is not believed", "[M08]") {
  const auto output = [](const std::string& attachment, std::int64_t begin, std::int64_t end) {
    return json{{"attachment", attachment}, {"offset", begin}, {"next", end}};
  };
  const auto gap = [&](std::int64_t from, std::int64_t to) {
    json with = output("a", to, to + 5);
    with["gap"] = {{"from", from}, {"to", to}};
    return with;
  };
  const auto after_ten = [&](const json& next) {
    Continuity continuity;
    REQUIRE(continuity.follows(output("a", 0, 10)));
    REQUIRE(continuity.follows(output("b", 500, 600)));
    return continuity.follows(next);
  };
  CHECK(after_ten(output("a", 10, 20)));
  CHECK(after_ten(output("a", 10, 10)));
  CHECK(after_ten(output("b", 600, 601)));
  CHECK(after_ten(output("new", 77, 78)));
  CHECK(after_ten(gap(10, 90)));
  CHECK_FALSE(after_ten(output("a", 11, 20)));
  CHECK_FALSE(after_ten(output("a", 0, 10)));
  CHECK_FALSE(after_ten(output("a", 9, 20)));
  CHECK_FALSE(after_ten(output("a", 10, 9)));
  CHECK_FALSE(after_ten(output("b", 10, 20)));
  CHECK_FALSE(after_ten(gap(9, 90)));
  CHECK_FALSE(after_ten(gap(10, 5)));
  CHECK_FALSE(after_ten(json{{"attachment", "a"}, {"offset", 10}}));
  CHECK_FALSE(after_ten(json{{"offset", 10}, {"next", 11}}));
  CHECK_FALSE(after_ten(json{{"attachment", "a"}, {"offset", -1}, {"next", 11}}));
  CHECK_FALSE(after_ten(json{{"attachment", "a"}, {"offset", 10.0}, {"next", 11}}));

  Continuity continuity;
  json last = output("a", 0, 10);
  last["eof"] = true;
  CHECK(continuity.follows(last));
  for (std::size_t i = 0; i < 3 * rex::relay::max_places; ++i) {
    CHECK(continuity.follows(output("x" + std::to_string(i), 1, 2)));
  }
}
