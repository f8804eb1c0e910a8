// Which texts are requests, which are answers, what is echoed, and that our own texts are always JSON.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "rpc/message.h"

using nlohmann::json;
using namespace rex::rpc;
using rex::Error;
using rex::Executed;
using rex::Fault;
using rex::RawJson;

namespace {

const Limits limits;

/// "request ID METHOD", "notification METHOD", "response ID ok|bad" or "CODE ID".
std::string told(const Message& message) {
  if (const auto* request = std::get_if<Request>(&message)) {
    return request->id ? "request " + *request->id + " " + request->method : "notification " + request->method;
  }
  if (const auto* response = std::get_if<Response>(&message)) {
    return "response " + response->id + (response->well_formed ? " ok" : " bad");
  }
  const auto& invalid = std::get<Invalid>(message);
  return std::to_string(static_cast<int>(invalid.error.fault())) + " " + invalid.id;
}

std::string told(const std::string& text) {
  const Parsed parsed = parse_messages(text, limits);
  REQUIRE(parsed.messages.size() == 1);
  return told(parsed.messages[0]);
}

json as_json(const Error& error) { return json::parse(error_object(error)); }

}  // namespace

TEST_CASE("An envelope is a request, a notification, an answer, or told what is wrong with it",
          "[R02][R03][R05][R08][R11]") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"jsonrpc":"2.0","id":1,"method":"m"})", "request 1 m"},
      {R"({"jsonrpc":"2.0","id":1,"method":"m","params":[1]})", "request 1 m"},
      {R"({"jsonrpc":"2.0","id":1,"method":"m","params":5})", "request 1 m"},
      {R"({"jsonrpc":"2.0","id":1,"method":"","extra":true})", "request 1 "},
      {R"({"jsonrpc":"2.0","method":"m"})", "notification m"},
      {R"({"id":1,"method":"m"})", "-32600 1"},
      {R"({"jsonrpc":"1.0","id":1,"method":"m"})", "-32600 1"},
      {R"({"jsonrpc":2.0,"id":1,"method":"m"})", "-32600 1"},
      {R"({"jsonrpc":"2.0","id":1})", "-32600 1"},
      {R"({"jsonrpc":"2.0","id":"x","method":5})", "-32600 \"x\""},
      {R"({"jsonrpc":"2.0","method":5})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":null,"method":"m"})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":true,"method":"m"})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":1.5,"method":"m"})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":1.0,"method":"m"})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":1e2,"method":"m"})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":{},"method":"m"})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":[],"method":"m"})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":1,"id":2,"method":"m"})", "-32600 null"},
      {R"({"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}})", "-32600 1"},
      {"5", "-32600 null"},
      {"\"x\"", "-32600 null"},
      {"null", "-32600 null"},
      {"[]", "-32600 null"},
      {"{}", "-32600 null"},
      {"{", "-32700 null"},
      {R"({"jsonrpc":"2.0","id":7,"result":null})", "response 7 ok"},
      {R"({"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}})", "response 7 ok"},
      {R"({"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":"m"}})", "response 7 bad"},
      {R"({"jsonrpc":"2.0","id":7,"error":{"code":"1"}})", "response 7 bad"},
      {R"({"jsonrpc":"2.0","id":7,"error":5})", "response 7 bad"},
      {R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}})", "response null ok"},
      {R"({"jsonrpc":"2.0","id":7,"method":"m","result":1})", "request 7 m"},
  };
  for (const auto& [text, expected] : rows) {
    CAPTURE(text);
    CHECK(told(text) == expected);
  }
}

TEST_CASE("An id is echoed as it was written, and two spellings of it are one id", "[J09][R09]") {
  for (const std::string id : {"1", "-0", "0", "-7", "\"\"", "\"a\"", R"("\u0041")", R"("\/")", "\"\xf0\x9f\x98\x80\"",
                               "12345678901234567890123456789012345678901234567890", "9007199254740993"}) {
    CAPTURE(id);
    CHECK(told(R"({"jsonrpc":"2.0","id": )" + id + R"( ,"method":"m"})") == "request " + id + " m");
  }
  CHECK(id_key(R"("\u0041")") == id_key(R"("A")"));
  CHECK(id_key(R"("\u0022\/")") == id_key(R"("\"/")"));
  CHECK(id_key("\"1\"") != id_key("1"));
  CHECK(find_id(R"({"id":123456789012345678901,"stop":true})", limits) == "123456789012345678901");
  CHECK(!find_id(R"({"id":1.5})", limits));
  CHECK(!find_id(R"([{"id":1}])", limits));
  CHECK(!find_id("", limits));
}

TEST_CASE("An id is found however the members stand, and never another's") {
  const std::string text =
      R"( {"x":{"id":7}, "id" : "\u0041" ,"params" : {"id":1, "z":[ ]},"method":"m","jsonrpc":"2.0"} )";
  const Parsed parsed = parse_messages(text, limits);
  CHECK(told(parsed.messages.at(0)) == R"(request "\u0041" m)");
  const auto& request = std::get<Request>(parsed.messages.at(0));
  CHECK(request.params_text == R"({"id":1, "z":[ ]})");
  CHECK(request.params == json::parse(request.params_text));

  const Parsed batch = parse_messages(R"([[{"id":2}],{"params":[ ],"id":123456789012345678901234567890}])", limits);
  REQUIRE(batch.messages.size() == 2);
  CHECK(told(batch.messages[0]) == "-32600 null");
  CHECK(told(batch.messages[1]) == "-32600 123456789012345678901234567890");
}

TEST_CASE("A member that means nothing here may not come twice either", "[J03]") {
  CHECK(told(R"({"jsonrpc":"2.0","id":1,"method":"m","x":1,"y":2})") == "request 1 m");
  CHECK(told(R"({"jsonrpc":"2.0","id":1,"method":"m","x":1,"x":2})") == "-32600 1");
  CHECK(told(R"({"jsonrpc":"2.0","id":1,"method":"m","method":"n"})") == "-32600 1");
  CHECK(told(R"({"jsonrpc":"2.0","id":1,"method":"m","met\u0068od":"n"})") == "-32600 1");
}

TEST_CASE("A text of too many values is refused as a whole, and one that is no JSON before that", "[J12]") {
  Limits few;
  few.json_values = 10;
  const auto refusal = [&](const std::string& text) {
    const Parsed parsed = parse_messages(text, few);
    REQUIRE(parsed.messages.size() == 1);
    CHECK(!parsed.batch);
    return told(parsed.messages[0]);
  };
  const std::string head = R"({"jsonrpc":"2.0","id":1,"method":"m",)";
  CHECK(refusal(head + R"("params":[1,2,3,4,5]})") == "request 1 m");
  for (const std::string& tail :
       {R"("params":[1,2,3,4,5,6]})", R"("a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7})",
        R"("params":{"a":[1,2,3,4,5,6,7,8],"b":0,"b":0}})", R"("x":[[],[],[],[],[],[],[]]})"}) {
    CAPTURE(tail);
    CHECK(refusal(head + tail) == "1201 null");
    CHECK(refusal("[" + head + tail + "]") == "1201 null");
    CHECK(refusal(head + tail + "}") == "-32700 null");
  }
}

TEST_CASE("An id or a method that is too long is refused and not echoed", "[J11]") {
  const std::string long_text(1 << 20, 'x');
  CHECK(told(R"({"jsonrpc":"2.0","id":")" + long_text + R"(","method":"m"})") == "-32600 null");
  CHECK(told(R"({"jsonrpc":"2.0","id":)" + std::string(1 << 20, '1') + R"(,"method":"m"})") == "-32600 null");
  const Parsed parsed = parse_messages(R"({"jsonrpc":"2.0","id":1,"method":")" + long_text + R"("})", limits);
  CHECK(told(parsed.messages[0]) == "-32600 1");
  CHECK(error_message("1", std::get<Invalid>(parsed.messages[0]).error).size() < 1000);
  CHECK(told(R"({"jsonrpc":"2.0","id":")" + std::string(1022, 'x') + R"(","method":"m"})").starts_with("request"));
  CHECK(told(R"({"jsonrpc":"2.0","id":")" + std::string(1023, 'x') + R"(","method":"m"})") == "-32600 null");
  CHECK(told(R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(256, 'm') + "\"}").starts_with("request"));
  CHECK(told(R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(257, 'm') + "\"}") == "-32600 1");
}

TEST_CASE("A batch is judged message by message, and as a whole only for its size", "[L09][R01]") {
  const Parsed parsed =
      parse_messages(R"([1,{"jsonrpc":"2.0","id":2,"method":"m"},[],{"jsonrpc":"2.0","method":"n"}])", limits);
  REQUIRE(parsed.batch);
  REQUIRE(parsed.messages.size() == 4);
  CHECK(told(parsed.messages[0]) == "-32600 null");
  CHECK(told(parsed.messages[1]) == "request 2 m");
  CHECK(told(parsed.messages[2]) == "-32600 null");
  CHECK(told(parsed.messages[3]) == "notification n");

  const std::string one_of_three =
      R"([{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b","params":[{"a":1,"a":2}]},)"
      R"({"jsonrpc":"2.0","id":3,"method":"c"}])";
  const Parsed three = parse_messages(one_of_three, limits);
  REQUIRE(three.messages.size() == 3);
  CHECK(told(three.messages[0]) == "request 1 a");
  CHECK(told(three.messages[1]) == "-32600 2");
  CHECK(told(three.messages[2]) == "request 3 c");

  const auto batch_of = [](std::size_t n) {
    std::string text = "[";
    for (std::size_t i = 0; i < n; ++i) {
      text += (i == 0 ? "" : ",") + std::string(R"({"jsonrpc":"2.0","method":"n"})");
    }
    return text + "]";
  };
  CHECK(parse_messages(batch_of(1000), limits).messages.size() == 1000);
  for (const std::size_t n : {std::size_t{1001}, std::size_t{100000}}) {
    const Parsed refused = parse_messages(batch_of(n), limits);
    CHECK(!refused.batch);
    REQUIRE(refused.messages.size() == 1);
    const json error = as_json(std::get<Invalid>(refused.messages[0]).error);
    CHECK(error.at("code") == 1201);
    CHECK(error.at("data").at("limit") == "batch");
    CHECK(error.at("data").at("value") == n);
    CHECK(error.at("data").at("max") == 1000);
  }
}

TEST_CASE("An error says its type, whether it took effect, whether to try again, and its facts", "[R14][J15]") {
  const Error error = Error(Fault::SessionBusy, "a job is running")
                          .with("job", "17")
                          .with("at", std::int64_t{9007199254740993})
                          .with("quiet", true)
                          .with("result", RawJson{R"({"output":"x"})"})
                          .with("path", "/tmp/\xff")
                          .with("shells", std::vector<std::string>{"bash", "sh"})
                          .retryable()
                          .executed(Executed::unknown);
  CHECK(as_json(error) == json::parse(R"({"code":1104,"message":"a job is running","data":{"type":"SessionBusy",
      "executed":"unknown","retryable":true,"job":"17","at":9007199254740993,"quiet":true,"result":{"output":"x"},
      "pathBytes":"L3RtcC//","shells":["bash","sh"]}})"));
}

TEST_CASE("The text of an error is short, valid, and harmless to show", "[R14][J15]") {
  const std::vector<std::string> hostile = {"\x1b]52;c;evil\x07",
                                            "\xff\xfe",
                                            std::string(1 << 20, 'x'),
                                            std::string(1 << 20, '\x1b'),
                                            std::string("a\0b", 3),
                                            "line\nline",
                                            "\xc2\x9b"
                                            "31m",
                                            "\"\\",
                                            std::string(1023, 'x') + "\xe2\x82\xac",
                                            std::string(600, '\xff')};
  for (const std::string& text : hostile) {
    CAPTURE(text.substr(0, 40));
    const json object = as_json(Error(Fault::InternalError, text));
    const auto message = object.at("message").get<std::string>();
    CHECK(message.size() <= 1024);
    CHECK(message.find_first_of(std::string("\x1b\0\n\x07\x7f", 5)) == std::string::npos);
    CHECK(message.find("\xc2\x9b") == std::string::npos);
  }
  CHECK(as_json(Error(Fault::OsError, "straße €")).at("message") == "straße €");
}

TEST_CASE("An error that another instance made comes through as it was") {
  const std::string original = R"({"code":1999,"message":"new","data":{"executed":"yes","retryable":true,)"
                               R"("type":"NewFault","host":"a/b","list":[1,{"x":null}]}})";
  const Parsed parsed = parse_messages(R"({"jsonrpc":"2.0","id":7,"error":)" + original + "}", limits);
  const auto& response = std::get<Response>(parsed.messages.at(0));
  REQUIRE(response.error);
  CHECK(as_json(*response.error) == json::parse(original));
}

TEST_CASE("An error whose code is no code is none, and not another's", "[R11]") {
  for (const char* const code : {"4294968600", "18446744073709551615", "-2147483649", "1.5", "\"1\"", "null"}) {
    CAPTURE(code);
    const std::string error = std::string(R"({"code":)") + code + R"(,"message":"m"})";
    const Parsed parsed = parse_messages(R"({"jsonrpc":"2.0","id":7,"error":)" + error + "}", limits);
    CHECK(!std::get<Response>(parsed.messages.at(0)).well_formed);
  }
}

TEST_CASE("An answer's result is had as it was written, or as a tree", "[J16]") {
  const std::string written = "{\"n\": 12345678901234567890123,\r\n \"result\":{\"s\":\"\\n\"}}";
  const Parsed parsed = parse_messages(R"({"jsonrpc":"2.0","id":7,"result":)" + written + "}", limits);
  const auto& response = std::get<Response>(parsed.messages.at(0));
  CHECK(response.well_formed);
  CHECK(response.result_text == written);
  const std::string sent = result_message("1", Result::written(response.result_text));
  CHECK(sent.find_first_of("\r\n") == std::string::npos);
  CHECK(json::parse(sent).at("result") == json::parse(written));
  CHECK(Result::written(written).tree() == json::parse(written));
  CHECK(Result::written("null").tree().is_null());
  CHECK(Result::written(json(std::vector<int>(2000, 0)).dump()).tree().size() == 2000);  // it is no batch
  CHECK_THROWS_AS(Result::written(R"([{"a":1,"a":2},{"b":1}])").tree(), Error);
  CHECK_THROWS_AS(Result::written(R"({"a":1,"a":2})").tree(), Error);
}

TEST_CASE("What we send is one line of exact JSON", "[J16]") {
  const json result = {{"size", 9007199254740993}, {"text", "a\nb\x01\x7f😀"}};
  const std::string text = result_message("12345678901234567890123", result);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.starts_with(R"({"jsonrpc":"2.0","id":12345678901234567890123,"result":{)"));
  CHECK(json::parse(text).at("result") == result);
  CHECK(request_message(std::nullopt, "a\"b", json()) == R"({"jsonrpc":"2.0","method":"a\"b"})");
  CHECK(request_message("1", "m", json::object()) == R"({"jsonrpc":"2.0","id":1,"method":"m","params":{}})");
}
