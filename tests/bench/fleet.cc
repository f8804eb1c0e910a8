// Many at once, and the first of each: from spawn to the first answer, session/create, and 30 sessions with 20 times
// `echo hi` each over one connection. Prints a name, samples, median and 99th percentile in µs a line.
// Must not judge: bench.py knows the targets.
#include "tests/bench/support.h"

namespace rex::bench {
namespace {

constexpr int sessions = 30;
constexpr int commands = 20;

void print(const char* name, const Samples& samples) {
  std::printf("%s %zu %.1f %.1f\n", name, samples.count(), samples.quantile(0.5), samples.quantile(0.99));
}

/// `true` by posix_spawn beside it: what any program costs here before its first instruction.
void first_answer(const std::string& program, int times) {
  Samples answer;
  Samples floor;
  for (int i = 0; i < times; ++i) {
    Clock::time_point begin = Clock::now();
    run_to_end({"true"});
    floor.add(microseconds_since(begin));
    begin = Clock::now();
    Server server(program);
    server.call("ping", "{}", "\"time\"");
    answer.add(microseconds_since(begin));
  }
  print("spawn-true", floor);
  print("first-answer", answer);
}

/// A bare bash beside it, from forkpty to the first byte it was asked for.
void create(const std::string& program, int times) {
  Samples created;
  Samples floor;
  Server server(program);
  for (int i = 0; i < times; ++i) {
    Clock::time_point begin = Clock::now();
    {
      RawPty bash({"bash", "--norc", "--noprofile", "--noediting", "-i"});
      bash.type("echo\n");
      bash.read_to('\n');
      floor.add(microseconds_since(begin));
    }
    begin = Clock::now();
    server.call("session/create", R"({"session":"bench","shell":"bash","startup":"clean"})", "\"ready\"");
    created.add(microseconds_since(begin));
    server.call("session/close", R"({"session":"bench"})", "\"survivors\":[]");
  }
  print("bare-bash", floor);
  print("create", created);
}

/// Request `id` is command id / sessions of session id % sessions; each session's next goes out with its last answer.
void fleet(const std::string& program, int times) {
  Samples total;
  for (int time = 0; time < times; ++time) {
    Server server(program);
    for (int i = 0; i < sessions; ++i) {
      server.call("session/create", R"({"session":"s)" + std::to_string(i) + R"(","shell":"bash"})", "\"ready\"");
    }
    const auto send = [&server](int id) {
      server.send(static_cast<std::uint64_t>(id), "session/run",
                  R"({"session":"s)" + std::to_string(id % sessions) + R"(","command":"echo hi"})");
    };
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < sessions; ++i) {
      send(i);
    }
    for (int done = 0; done < sessions * commands; ++done) {
      const std::string_view answer = server.receive();
      const std::size_t at = answer.find("\"id\":");
      if (at == std::string_view::npos || answer.find(R"("output":"hi\n")") == std::string_view::npos) {
        fail(answer);
      }
      const int id = std::atoi(answer.data() + at + 5);
      if (id + sessions < sessions * commands) {
        send(id + sessions);
      }
    }
    total.add(microseconds_since(begin));
  }
  print("fleet", total);
}

}  // namespace
}  // namespace rex::bench

int main(int count, char** arguments) {
  if (count != 5) {
    return 2;
  }
  rex::bench::first_answer(arguments[1], std::atoi(arguments[2]));
  rex::bench::create(arguments[1], std::atoi(arguments[3]));
  rex::bench::fleet(arguments[1], std::atoi(arguments[4]));
  return 0;
}
