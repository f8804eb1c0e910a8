// The JSON reader refuses what two readers could understand differently, and does so in bounded time and space.

#include <catch2/catch_test_macros.hpp>
#include <ctime>
#include <string>
#include <vector>

#include "base/encoding.h"
#include "rpc/json_reader.h"
#include "rpc/json_text.h"

using nlohmann::json;
using rex::Fault;
using rex::rpc::Document;
using rex::rpc::Limits;
using rex::rpc::read_json;

namespace {

const Limits limits;

bool malformed(const std::string& text) {
  const Document document = read_json(text, limits);
  return document.refused && document.refused->fault() == Fault::ParseError;
}

/// The same of a value that is only passed over.
bool malformed_where_passed_over(const std::string& text) {
  const std::string object = "{\"a\":" + text + "}";
  rex::rpc::JsonReader reader(object, limits);
  bool member = false;
  reader.step_in();
  const bool sound =
      rex::is_utf8(object) && (reader.read_item(&member) && reader.read_key() && reader.read_value(nullptr) &&
                               reader.read_item(&member) && !member && reader.read_end());
  return !sound && (!rex::is_utf8(object) || reader.failure()->fault() == Fault::ParseError);
}

/// The reason for which `text` is refused, "" if it is not.
std::string refusal(const std::string& text) {
  const Document document = read_json(text, limits);
  if (document.refused) {
    for (const auto& [name, fact] : document.refused->facts()) {
      if (name == "reason" || name == "limit") {
        return std::get<std::string>(fact);
      }
    }
    return "ParseError";
  }
  return "";
}

std::string repeat(const std::string& text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) {
    out += text;
  }
  return out;
}

}  // namespace

TEST_CASE("What is not JSON is a parse error", "[J04][J06][J07][G4]") {
  const std::vector<std::string> texts = {"",
                                          " ",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "[1",
                                          "[1,",
                                          "[1,]",
                                          "[,1]",
                                          "[1 2]",
                                          "[1]]",
                                          "{\"a\"}",
                                          "{\"a\":}",
                                          "{\"a\":1,}",
                                          "{,}",
                                          "{1:2}",
                                          "{\"a\" 1}",
                                          "{'a':1}",
                                          "[1]x",
                                          "[1]\xef\xbb\xbf",
                                          "\xef\xbb\xbf[1]",
                                          "nul",
                                          "nulll",
                                          "True",
                                          "NaN",
                                          "[Infinity]",
                                          "[-Infinity]",
                                          "[-]",
                                          "[+1]",
                                          "[01]",
                                          "[-01]",
                                          "[1.]",
                                          "[.5]",
                                          "[1e]",
                                          "[1e+]",
                                          "[0x1]",
                                          "[1_0]",
                                          "[1,// c\n2]",
                                          "[/* c */1]",
                                          "#",
                                          "\"",
                                          "\"\\\"",
                                          "\"\\x\"",
                                          "\"\\u12\"",
                                          "\"\\u12g4\"",
                                          "\"\\U1234\"",
                                          "\"a\nb\"",
                                          "\"\t\"",
                                          std::string("\"a\0b\"", 5),
                                          std::string("{}\0junk", 7),
                                          std::string("[1]\0", 4),
                                          std::string("\0[1]", 4),
                                          R"("\uD800")",
                                          R"("\uDC00\uD800")",
                                          R"("\uD800\uD800")",
                                          R"("\uD800x")",
                                          R"("\uDFFF")",
                                          R"({"\uD83D":1})",
                                          "\"\xc0\xaf\"",
                                          "\"\xed\xa0\x80\"",
                                          "\"\xed\xa0\xbd\xed\xb8\x80\"",
                                          "\"\xe2\x82\"",
                                          "\"\xff\"",
                                          "\"\x80\"",
                                          "\"\xf4\x90\x80\x80\"",
                                          "[\xe2\x80\xa8]",
                                          "[\xa0]",
                                          "[1\x0c]",
                                          "{\"a\":1}}",
                                          "[\"a\":1]",
                                          "{\"a\":1 \"b\":2}",
                                          "[1,,2]",
                                          "--1",
                                          "[1e1.5]",
                                          "\"\\",
                                          "[\"\\u00",
                                          "[tru]",
                                          "{\"a\":tru}",
                                          std::string(100000, '['),
                                          repeat("[{\"\":", 50000),
                                          std::string(70, '[') + std::string(69, ']'),
                                          std::string(70, '[') + "1,]"};
  for (const std::string& text : texts) {
    CAPTURE(text.substr(0, 80));
    CHECK(malformed(text));
    CHECK(malformed_where_passed_over(text));
  }
}

TEST_CASE("What is JSON is read as the one value it can mean", "[J09]") {
  const std::vector<std::pair<std::string, json>> rows = {
      {" [ ] ", json::array()},
      {"{}", json::object()},
      {"\t\n\r null", nullptr},
      {"true", true},
      {"false", false},
      {"[[],{}]", json::array({json::array(), json::object()})},
      {"0", 0},
      {"-0", 0},
      {"-1", -1},
      {"9007199254740993", 9007199254740993},
      {"9223372036854775807", INT64_MAX},
      {"-9223372036854775808", INT64_MIN},
      {"18446744073709551615", UINT64_MAX},
      {"1.0", 1.0},
      {"1e2", 100.0},
      {"1E-2", 0.01},
      {"-1.5e+3", -1500.0},
      {R"("\"\\\/\b\f\n\r\t")", "\"\\/\b\f\n\r\t"},
      {R"("\u0041\u00e9\u20ac\ud83d\ude00")", "Aé€😀"},
      {R"("a\u0000b")", std::string("a\0b", 3)},
      {"\"\x7f\"", "\x7f"},
      {R"({"a":{"b":[1,{"c":null}]}})", json{{"a", {{"b", {1, {{"c", nullptr}}}}}}}},
      {R"([{"a":1},{"a":1}])", json::array({{{"a", 1}}, {{"a", 1}}})},
      {R"({"":0})", json{{"", 0}}},
      {"\"\xf4\x8f\xbf\xbf\"", "\xf4\x8f\xbf\xbf"}};
  for (const auto& [text, value] : rows) {
    CAPTURE(text);
    const Document document = read_json(text, limits);
    CHECK(!malformed_where_passed_over(text));
    CHECK(!document.refused);
    CHECK(document.root == value);
    CHECK(document.root.type() ==
          (value.is_number_unsigned() && document.root.is_number_integer() && !document.root.is_number_unsigned()
               ? document.root.type()
               : value.type()));
  }
}

TEST_CASE("An integer beyond 64 bits is never mistaken for a smaller one", "[J09]") {
  for (const char* text : {"18446744073709551616", "-9223372036854775809", "1e400", "-1e400"}) {
    CAPTURE(text);
    CHECK(read_json(text, limits).root.is_number_float());
    CHECK(std::abs(read_json(text, limits).root.get<double>()) >= 9.2e18);
  }
}

TEST_CASE("A key may not come twice, at any depth", "[J03]") {
  CHECK(refusal(R"({"a":1,"a":1})") == "duplicateKey");
  CHECK(refusal(R"({"a":1,"\u0061":2})") == "duplicateKey");
  CHECK(refusal(R"({"p":{"x":[{"a":1,"b":2,"a":3}]}})") == "duplicateKey");
  CHECK(refusal(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]})") == "");
  CHECK(malformed(R"({"a":1,"a":1)"));
}

TEST_CASE("Depth is capped before there is a tree", "[G4]") {
  CHECK(refusal(std::string(64, '[') + std::string(64, ']')) == "");
  CHECK(refusal("{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}") == "");
  CHECK(refusal("{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}") == "jsonDepth");
  CHECK(refusal(std::string(100000, '[') + std::string(100000, ']')) == "jsonDepth");
  CHECK(refusal(repeat("{\"a\":", 100000) + "[1,{\"b\":2,\"c\":[]}]" + std::string(100000, '}')) == "jsonDepth");
}

TEST_CASE("Cost is linear in the text", "[J12][J14]") {
  const std::clock_t start = std::clock();
  CHECK(refusal("[" + std::string(1 << 20, '9') + "]") == "numberTooLong");
  CHECK(refusal("1." + std::string(1 << 20, '9') + "e5") == "numberTooLong");
  CHECK(refusal("[" + std::string(1024, '9') + "]") == "");
  std::string keys;
  for (int i = 0; i < 100000; ++i) {
    keys += (i == 0 ? "{\"k" : ",\"k") + std::to_string(i) + "\":0";
  }
  CHECK(read_json(keys + "}", limits).root.size() == 100000);
  CHECK(refusal("{\"a\":[" + repeat("0,", 1'000'000) + "0]}") == "jsonValues");
  CHECK(refusal("{\"a\":" + std::string(63, '[') + repeat("[],", 200'000) + "[]" + std::string(63, ']') + "}") ==
        "jsonDepth");
  CHECK(std::clock() - start < 30 * CLOCKS_PER_SEC);  // even sanitized; what is quadratic takes hours
}

TEST_CASE("What is written is what nlohmann writes, whatever the value", "[J16]") {
  std::string every_byte;
  for (int byte = 0; byte < 0x80; ++byte) {
    every_byte += static_cast<char>(byte);
  }
  for (const json& value :
       {json(), json(true), json(false), json(0), json(-1), json(INT64_MIN), json(UINT64_MAX), json(0.1), json(1e300),
        json(""), json("plain"), json(every_byte), json("\"\\\"\\"), json("\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\xa8"),
        json(std::string(5000, 'x') + "\n"), json::array(), json::object(),
        json::array({1, "two", json::array({3}), json::object({{"four", nullptr}})}),
        json::object({{"a \n key", 1}, {"b", json::array({json::object(), json::array()})}, {"", "empty"}})}) {
    std::string text = "before ";
    rex::rpc::append_json(text, value);
    CHECK(text == "before " + value.dump());
  }
  for (const json& value : {json("\xff"), json::array({"half \xc3"}), json::object({{"\xed\xa0\x80", 1}})}) {
    std::string text;
    CHECK_THROWS_AS(rex::rpc::append_json(text, value), json::type_error);
  }
}
