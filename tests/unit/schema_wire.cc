// What the generated readers and writers promise beyond the examples, and that the document says what the code does.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "methods/wire.gen.h"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace rex;
using namespace std::string_literals;

namespace {

/// The error that reading `params` ends in.
template <class Params>
Error refusal(const json& params) {
  try {
    wire::read<Params>(params);
  } catch (const Error& error) {
    return error;
  }
  FAIL("was accepted: " << params.dump());
  return {Fault::InternalError, {}};
}

std::vector<std::string> known_of(const Error& error) {
  for (const auto& [name, value] : error.facts()) {
    if (name == "known") {
      return std::get<std::vector<std::string>>(value);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("An unknown member is answered with the names that are known there", "[R17]") {
  const Error top = refusal<wire::SessionResizeParams>({{"session", "s"}, {"rows", 1}, {"columns", 2}});
  CHECK(top.message() == "params.columns: unknown member");
  CHECK(known_of(top) == std::vector{"session"s, "rows"s, "cols"s, "host"s});

  const Error deep = refusal<wire::SessionWaitParams>({{"session", "s"}, {"any", {{{"match", "x"}, {"form", 1}}}}});
  CHECK(deep.message() == "params.any[0].form: unknown member");
  CHECK(known_of(deep) == std::vector{"match"s, "from"s, "stripAnsi"s});

  const Error bytes = refusal<wire::FileRealpathParams>({{"path", "/"}, {"strict", true}});
  CHECK(known_of(bytes) == std::vector{"path"s, "pathBytes"s, "host"s});
}

TEST_CASE("A misspelt name is told before the member it leaves missing") {
  CHECK(refusal<wire::SessionInfoParams>({{"sesion", "s"}}).message() == "params.sesion: unknown member");
}

TEST_CASE("An unknown word is answered with the words there are") {
  const Error error = refusal<wire::SessionReadParams>({{"session", "s"}, {"view", "pretty"}});
  CHECK(error.message() == "params.view: expected one of clean, raw, got pretty");
  CHECK(known_of(error) == std::vector{"clean"s, "raw"s});
}

TEST_CASE("An integer is an integer however it is written, and nothing else is", "[J09][L14]") {
  const auto offset = [](const std::string& text) {
    return wire::read<wire::SessionReadParams>(json::parse(R"({"session": "s", "offset": )" + text + "}")).offset;
  };
  for (const auto& [text, value] : std::initializer_list<std::pair<std::string, std::int64_t>>{
           {"0", 0},
           {"-0", 0},
           {"5.0", 5},
           {"1e2", 100},
           {"2147483648", std::int64_t{1} << 31},
           {"9007199254740991", (std::int64_t{1} << 53) - 1},
           {"9007199254740991.0", (std::int64_t{1} << 53) - 1}}) {
    CAPTURE(text);
    CHECK(offset(text) == value);
  }
  for (const std::string text :
       {"5.5", "-1", "-0.5", "9007199254740992", "9007199254740993", "9007199254740993.0", "9223372036854775807",
        "9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775808", "1e300", "\"5\"",
        "true", "[5]", "{}"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(offset(text), Error);
  }
  for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const Error error = refusal<wire::SessionReadParams>({{"session", "s"}, {"offset", value}});
    CHECK_THAT(error.message(), ContainsSubstring("params.offset: "));
  }
}

TEST_CASE("Null is absent, but unsets in env") {
  const auto params = wire::read<wire::SessionCreateParams>(
      json::parse(R"({"session": null, "rows": null, "argv": null, "env": {"PAGER": null, "A": "b"}})"));
  CHECK_FALSE(params.session);
  CHECK(params.rows == 50);
  CHECK_FALSE(params.argv);
  CHECK(params.env == std::map<std::string, std::optional<std::string>>{{"PAGER", std::nullopt}, {"A", "b"}});
}

TEST_CASE("OS strings keep every byte, both ways", "[J15]") {
  const std::string name = "/srv/\xff\xfe \n";
  const json written = wire::write(wire::FileRealpathResult{name});
  CHECK(written == json{{"pathBytes",
                         "L3Nydi//\x2f"
                         "iAK"}});
  CHECK(wire::read_result<wire::FileRealpathResult>(written).path == name);

  wire::SessionCreateParams params;
  params.argv = {"ls", "\xff"};
  params.env = {{"GOOD", "x"}, {"BAD", "\xff"}, {"GONE", std::nullopt}};
  const json both = wire::write(params);
  CHECK_FALSE(both.contains("argv"));
  CHECK_FALSE(both.contains("env"));
  CHECK(wire::read<wire::SessionCreateParams>(both).argv == params.argv);
  CHECK(wire::read<wire::SessionCreateParams>(both).env == params.env);
}

TEST_CASE("No bytes in a value make its answer impossible to send", "[J15]") {
  wire::RunResult result;
  result.session = "\xff";
  result.cwd = "/\xc3";
  result.output = "half \xe2\x82";
  result.survivors = {{7, "\x80"}};
  const std::string text = wire::write(result).dump();
  const json read = json::parse(text);
  CHECK(read["cwdBytes"] == "L8M=");
  CHECK(read["survivors"][0]["commandBytes"] == "gA==");
  CHECK(read["output"] == "half \xef\xbf\xbd");

  wire::SessionInfo info;
  info.labels = {{"\xff", "\xff"}};
  CHECK_NOTHROW(wire::write(info).dump());
}

TEST_CASE("What has no value is null where the protocol shows null, and else left out") {
  const json run = wire::write(wire::RunResult{});
  for (const char* name : {"exitCode", "signal", "omitted", "syntaxError", "expect", "waiting", "restarted"}) {
    CAPTURE(name);
    REQUIRE(run.contains(name));
    CHECK(run[name].is_null());
  }
  const json info = wire::write(wire::SessionInfo{});
  for (const char* name : {"foreground", "job", "waiting", "writer"}) {
    CAPTURE(name);
    REQUIRE(info.contains(name));
    CHECK(info[name].is_null());
  }
  CHECK_FALSE(info.contains("startup"));
}

TEST_CASE("A result from a newer instance is read, its new members left alone") {
  const json result{{"time", "2026-03-01T12:00:00Z"}, {"leapSecond", false}};
  CHECK(wire::read_result<wire::PingResult>(result).time == "2026-03-01T12:00:00Z");
  try {
    wire::read_result<wire::PingResult>({{"time", 7}});
    FAIL("was accepted");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::HostProtocol);
    CHECK(error.message() == "result.time: expected a string, got number 7");
  }
}

TEST_CASE("A path in a refusal cannot forge a terminal or a log") {
  const Error error = refusal<wire::PingParams>({{"\x1b]0;x\n", 1}});
  CHECK(error.message().find('\x1b') == std::string::npos);
  CHECK(error.message().find('\n') == std::string::npos);
}

TEST_CASE("The document has exactly the faults of the code, with their types") {
  const json errors = json::parse(wire::openrpc_document())["components"]["errors"];
  std::set<std::string> types;
  for (int code = -33000; code < 10000; ++code) {
    const auto fault = static_cast<Fault>(code);
    // name_of answers InternalError for what is no fault.
    if (name_of(fault) == "InternalError" && fault != Fault::InternalError) {
      continue;
    }
    CAPTURE(code);
    const std::string type(name_of(fault));
    types.insert(type);
    REQUIRE(errors.contains(type));
    CHECK(errors[type]["code"] == code);
    CHECK(errors[type]["data"]["allOf"][1]["properties"]["type"]["const"] == type);
  }
  CHECK(types.size() == errors.size());
}

TEST_CASE("The document has exactly the methods of the lists") {
  std::set<std::string> listed(wire::requests.begin(), wire::requests.end());
  listed.insert(wire::client_notifications.begin(), wire::client_notifications.end());
  listed.insert(wire::server_notifications.begin(), wire::server_notifications.end());
  listed.insert(wire::server_requests.begin(), wire::server_requests.end());
  std::set<std::string> documented;
  const json document = json::parse(wire::openrpc_document());
  for (const json& method : document["methods"]) {
    documented.insert(method["name"].get<std::string>());
  }
  CHECK(listed == documented);
}

TEST_CASE("The limits announced are those of the document") {
  const json document = json::parse(wire::openrpc_document());
  CHECK(wire::limits::all.size() == document["x-limits"].size());
  for (const auto& [name, value] : wire::limits::all) {
    CAPTURE(name);
    CHECK(document["x-limits"][std::string(name)]["value"] == value);
  }
}
