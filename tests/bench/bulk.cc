// 52 MB of `seq`: a bare bash on a raw pty whose bytes are read and dropped, then a session that keeps them all, one
// after the other, several times. Prints "pty" or "rex", bytes and milliseconds until the command had ended, and for
// rex whether session/read gave back each byte and how long that took. Must not judge: bench.py knows the targets.
#include "tests/bench/support.h"

namespace rex::bench {
namespace {

std::string numbers(int last) {
  std::string text;
  for (int i = 1; i <= last; ++i) {
    text.append(std::to_string(i)).append(1, '\n');
  }
  return text;
}

void on_pty(const std::string& command, std::size_t expected) {
  RawPty bash({"bash", "--norc", "--noprofile", "--noediting", "-i"});
  bash.type("echo\n");
  bash.read_to('\n');
  bash.type(command + "; printf .\n");
  const Clock::time_point begin = Clock::now();
  const std::size_t size = bash.read_to('.') - 1;
  std::printf("pty %zu %.1f\n", size, microseconds_since(begin) / 1e3);
  if (size != expected) {
    fail("the bare pty lost bytes");
  }
}

/// The value of an integer member.
std::size_t number_of(std::string_view message, std::string_view member) {
  const std::size_t at = message.find("\"" + std::string(member) + "\":");
  return at == std::string_view::npos ? 0 : std::strtoull(message.data() + at + member.size() + 3, nullptr, 10);
}

/// The `data` of a session/read, in which nothing but line feeds can be escaped here.
std::string data_of(std::string_view message) {
  constexpr std::string_view member = "\"data\":\"";
  std::size_t at = message.find(member) + member.size();
  const std::size_t end = message.find('"', at);
  std::string data;
  data.reserve(end - at);
  while (at < end) {
    const std::size_t escape = std::min(message.find('\\', at), end);
    data.append(message, at, escape - at);
    if (escape < end) {
      data += message[escape + 1] == 'n' ? '\n' : '?';
    }
    at = escape + 2;
  }
  return data;
}

bool is_all_there(Server& server, std::string_view expected) {
  std::size_t offset = 0;
  while (offset < expected.size()) {
    const std::string params = R"({"session":"bench","maxBytes":8388608,"offset":)" + std::to_string(offset) + "}";
    const std::string_view answer = server.call("session/read", params, "\"data\":\"");
    const std::string data = data_of(answer);
    if (data.empty() || expected.substr(offset, data.size()) != data) {
      return false;
    }
    offset += data.size();
  }
  return offset == expected.size();
}

void in_session(const std::string& program, const std::string& command, std::string_view expected) {
  Server server(program);
  server.call("session/create", R"({"session":"bench","shell":"bash"})", "\"ready\"");
  Clock::time_point begin = Clock::now();
  const std::string_view answer =
      server.call("session/run", R"({"session":"bench","command":")" + command + "\"}", "\"exitCode\":0");
  const double run = microseconds_since(begin) / 1e3;
  const std::size_t size = number_of(answer, "totalBytes");
  begin = Clock::now();
  const bool exact = is_all_there(server, expected);
  std::printf("rex %zu %.1f %d %.1f\n", size, run, static_cast<int>(exact), microseconds_since(begin) / 1e3);
}

}  // namespace
}  // namespace rex::bench

int main(int count, char** arguments) {
  if (count != 4) {
    return 2;
  }
  const int last = std::atoi(arguments[2]);
  const std::string expected = rex::bench::numbers(last);
  const std::string command = "seq 1 " + std::to_string(last);
  for (int i = 0; i < std::atoi(arguments[3]); ++i) {
    rex::bench::on_pty(command, expected.size());
    rex::bench::in_session(arguments[1], command, expected);
  }
  return 0;
}
