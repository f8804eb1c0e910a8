// What is a frame, what closes the stream, and that it does not matter how the bytes were cut.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "rpc/framing.h"

using rex::rpc::FrameDecoder;
using rex::rpc::Limits;

namespace {

/// What came out: bodies, "!reason" for what was refused and stepped over, "#" for a broken stream.
using Outcome = std::vector<std::string>;

constexpr std::size_t small_frame = 64;

Outcome decode(const std::string& bytes, std::size_t piece, bool end = true) {
  Limits limits;
  limits.frame_bytes = small_frame;
  FrameDecoder decoder(limits);
  Outcome outcome;
  const auto collect = [&] {
    while (const auto frame = decoder.next()) {
      if (frame->refused) {
        const auto& facts = frame->refused->facts();
        const auto reason = std::find_if(facts.begin(), facts.end(), [](const auto& f) { return f.first == "reason"; });
        outcome.push_back("!" + std::get<std::string>(reason->second));
      } else {
        outcome.emplace_back(frame->body);
      }
    }
  };
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::string copy = bytes.substr(at, piece);  // so that a view kept too long is caught
    decoder.feed(copy);
    collect();
  }
  if (end) {
    decoder.feed({});
    decoder.end_of_input();
    collect();
  }
  if (!decoder.broken().empty()) {
    outcome.emplace_back("#");
  }
  return outcome;
}

struct Row {
  const char* what;
  std::string bytes;
  Outcome expected;
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.what, row.bytes);
    CHECK(decode(row.bytes, row.bytes.size() + 1) == row.expected);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}}) {
      CAPTURE(piece);
      CHECK(decode(row.bytes, piece) == row.expected);
    }
  }
}

const std::string text_2 = R"({"a":1})";
const std::string good = "Content-Length: 7\r\n\r\n" + text_2;

}  // namespace

TEST_CASE("A frame is a Content-Length, perhaps a Content-Type, and that many bytes", "[F01][F02][F04][F08][G1]") {
  check({
      {"only the length", good, {text_2}},
      {"two frames", good + good, {text_2, text_2}},
      {"any case, no space", "content-length:7\r\n\r\n" + text_2, {text_2}},
      {"tabs and spaces around the value", "CONTENT-LENGTH:\t 7 \t\r\n\r\n" + text_2, {text_2}},
      {"leading zeros", "Content-Length: 0007\r\n\r\n" + text_2, {text_2}},
      {"length in bytes, not characters", "Content-Length: 6\r\n\r\n\"\xf0\x9f\x98\x80\"", {"\"\xf0\x9f\x98\x80\""}},
      {"charset utf-8",
       "Content-Length: 7\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n" + text_2,
       {text_2}},
      {"charset utf8", "Content-Type: application/json; Charset=UTF8\r\nContent-Length: 7\r\n\r\n" + text_2, {text_2}},
      {"charset quoted",
       "Content-Type: application/json;charset=\"utf-8\"\r\nContent-Length: 7\r\n\r\n" + text_2,
       {text_2}},
      {"charset absent", "Content-Type: application/vscode-jsonrpc\r\nContent-Length: 7\r\n\r\n" + text_2, {text_2}},
      {"charset utf-16",
       "Content-Length: 7\r\nContent-Type: a/json; charset=utf-16\r\n\r\n" + text_2 + good,
       {"!contentType", text_2}},
      {"not JSON", "Content-Length: 7\r\nContent-Type: text/plain\r\n\r\n" + text_2 + good, {"!contentType", text_2}},
      {"utf-16 and nothing in it",
       "Content-Length: 0\r\nContent-Type: a/json; charset=utf-16\r\n\r\n" + good,
       {"!contentType", text_2}},
      {"empty body", "Content-Length: 0\r\n\r\n" + good, {"", text_2}},
      {"body of spaces", "Content-Length: 2\r\n\r\n  ", {"  "}},
  });
}

TEST_CASE("A header block that is not exactly one closes the stream", "[F05][F09][F10][F11][F17][F18][F19][F20][G2]") {
  check({
      {"LF only", "Content-Length: 7\n\n" + text_2, {"#"}},
      {"LF only at the blank line", "Content-Length: 7\r\n\n" + text_2, {"#"}},
      {"lone CR", "Content-Length: 7\r\r\n" + text_2, {"#"}},
      {"CR within a value", "Content-Length: 7\r7\r\n\r\n" + text_2, {"#"}},
      {"CR within a type", "Content-Length: 7\r\nContent-Type: a/json\rb\r\n\r\n" + text_2, {"#"}},
      {"no blank line", "Content-Length: 7\r\n" + text_2, {"#"}},
      {"length twice, equal", "Content-Length: 7\r\nContent-Length: 7\r\n\r\n" + text_2, {"#"}},
      {"length twice, different", "Content-Length: 7\r\nContent-Length: 8\r\n\r\n" + text_2, {"#"}},
      {"type twice", "Content-Type: a/json\r\nContent-Type: a/json\r\nContent-Length: 7\r\n\r\n" + text_2, {"#"}},
      {"no length", "Content-Type: application/json\r\n\r\n" + text_2, {"#"}},
      {"another header", "Content-Length: 7\r\nX-Foo: 1\r\n\r\n" + text_2, {"#"}},
      {"Host", "Content-Length: 7\r\nHost: x\r\n\r\n" + text_2, {"#"}},
      {"a header that begins like ours", "Content-Lengthy: 7\r\n\r\n" + text_2, {"#"}},
      {"a shorter one", "Content-L: 7\r\n\r\n" + text_2, {"#"}},
      {"space before the colon", "Content-Length : 7\r\n\r\n" + text_2, {"#"}},
      {"folded line", "Content-Length: 7\r\n \r\n\r\n" + text_2, {"#"}},
      {"no colon", "Content\r\n\r\n" + text_2, {"#"}},
      {"no value", "Content-Length:\r\n\r\n" + text_2, {"#"}},
      {"negative", "Content-Length: -1\r\n\r\n" + text_2, {"#"}},
      {"signed", "Content-Length: +7\r\n\r\n" + text_2, {"#"}},
      {"hexadecimal", "Content-Length: 0x7\r\n\r\n" + text_2, {"#"}},
      {"a list", "Content-Length: 7, 7\r\n\r\n" + text_2, {"#"}},
      {"10^19", "Content-Length: 10000000000000000000\r\n\r\n" + text_2, {"#"}},
      {"2^64 + 7", "Content-Length: 18446744073709551623\r\n\r\n" + text_2, {"#"}},
      {"NUL", std::string("Content-Length: 7\0\r\n\r\n", 22) + text_2, {"#"}},
      {"a byte above ASCII", "Content-Length: 7\x80\r\n\r\n" + text_2, {"#"}},
      {"ESC", "Content-Length: 7\x1b\r\n\r\n" + text_2, {"#"}},
      {"body longer than the length", good + "}" + good, {text_2, "#"}},
      {"garbage after a good frame", good + "xyz", {text_2, "#"}},
      {"JSON after a good frame", good + text_2 + "\n", {text_2, "#"}},
      {"blank line between frames", good + "\r\n" + good, {text_2, "#"}},
      {"byte order mark before the header", "\xef\xbb\xbf" + good, {"#"}},
      {"byte order mark in the body", "Content-Length: 10\r\n\r\n\xef\xbb\xbf" + text_2, {"\xef\xbb\xbf" + text_2}},
  });
}

TEST_CASE("Another protocol is found out at its first bytes", "[F14][F11]") {
  for (const std::string opening : {"GET / HTTP/1.1\r\n", "POST /", "PRI * HTTP/2.0", "\x16\x03\x01", "SSH-2.0-x",
                                    "PROXY TCP4", "\r\n\r\n\0\r\nQUIT\n", "*1\r\n$4\r\nPING\r\n",
                                    "CONNECT x:1 HTTP/1.1", "copy", " {}", "\n{}", "\"x\"", "5", "\xef\xbb\xbf{}"}) {
    CAPTURE(opening);
    CHECK(decode(opening, 1, false) == Outcome{"#"});
  }
}

TEST_CASE("A header block has a bound, and is given up where that is passed", "[F12]") {
  const std::string length = "Content-Length: 7";
  const auto padded = [&](std::size_t total) {
    return length + std::string(total - length.size() - 4, ' ') + "\r\n\r\n" + text_2;
  };
  CHECK(decode(padded(4096), 1000) == Outcome{text_2});
  CHECK(decode(padded(4097), 1000) == Outcome{"#"});
  CHECK(decode(std::string("C") + std::string(1 << 20, 'o'), 1000, false) == Outcome{"#"});
  CHECK(decode(length + std::string(1 << 20, ' '), 1000, false) == Outcome{"#"});
  std::string many;  // of frames, whose headers are together longer than one may be
  for (int i = 0; i < 300; ++i) {
    many += good;
  }
  CHECK(decode(many, 1000) == Outcome(300, text_2));
}

TEST_CASE("Half a frame is never a frame", "[F16]") {
  check({
      {"the body stops where its JSON is complete", "Content-Length: 9\r\n\r\n" + text_2, {}},
      {"the header stops", "Content-Length: 7\r\n", {}},
      {"after a good one", good + "Content-Le", {text_2}},
      {"nothing at all", "", {}},
  });
}

TEST_CASE("A frame beyond the limit is stepped over, whatever its framing", "[F22]") {
  const auto body = [](std::size_t n) { return "{" + std::string(n - 2, ' ') + "}"; };
  for (const std::size_t n : {small_frame - 1, small_frame, small_frame + 1, 10 * small_frame}) {
    const Outcome expected{n <= small_frame ? body(n) : "!frameTooLarge", text_2};
    check({
        {"headers", "Content-Length: " + std::to_string(n) + "\r\n\r\n" + body(n) + good, expected},
        {"lines", body(n) + "\n" + text_2 + "\n", expected},
        {"lines with CR", body(n) + "\r\n" + text_2 + "\n", expected},
    });
  }
}

TEST_CASE("A stream that begins with a brace or a bracket has one message a line", "[G3]") {
  check({
      {"one", "{}\n", {"{}"}},
      {"a batch first", "[]\n{}\n", {"[]", "{}"}},
      {"CR LF and blank lines", "{}\r\n\r\n\n  \n{ }\n", {"{}", "{ }"}},
      {"the last line without LF", "{}\n{\"a\":2}", {"{}", "{\"a\":2}"}},
      {"the last line without LF, CR only", "{}\n{}\r", {"{}", "{}\r"}},
      {"what is no JSON is still one line", "{}\nGET /\n{}\n", {"{}", "GET /", "{}"}},
      {"a header among lines", "{}\nContent-Length: 2\r\n", {"{}", "Content-Length: 2"}},
  });
}
