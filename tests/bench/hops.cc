// What each hop of a host path costs, beside the least that a process between two others can do: read and write.
// Prints one line a subject: name, samples, median and 99th percentile in µs. Must not judge: bench.py knows the
// targets.
#include <functional>
#include <memory>

#include "tests/bench/support.h"

namespace rex::bench {
namespace {

constexpr int max_hops = 3;
constexpr int batch = 50;

/// Bytes to a program that gives them back, through so many relays.
class Chain {
 public:
  explicit Chain(int relays) {
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
      fail("pipe2");
    }
    pid_ = spawn({"/proc/self/exe", "--relay", std::to_string(relays)}, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Chain() {
    close(to_);
    close(from_);
    waitpid(pid_, nullptr, 0);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  /// As many bytes as a request and its answer have.
  void round() {
    char buffer[4096] = {};
    write_whole(to_, std::string_view(buffer, 256));
    for (std::size_t left = 256; left > 0;) {
      const ssize_t n = read(from_, buffer, sizeof buffer);
      if (n <= 0) {
        fail("a relay has gone");
      }
      left -= static_cast<std::size_t>(n);
    }
  }

 private:
  int to_ = -1;
  int from_ = -1;
  pid_t pid_ = -1;
};

/// One of the chain: copies both ways between its own streams and those of the next, or gives back what it reads.
int relay_of(int further) {
  int next_in = 1;
  int next_out = 0;
  if (further > 0) {
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
      fail("pipe2");
    }
    spawn({"/proc/self/exe", "--relay", std::to_string(further - 1)}, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    next_in = in[1];
    next_out = out[0];
  }
  char buffer[65536];
  const auto copy = [&buffer](int from, int to) {
    const ssize_t n = read(from, buffer, sizeof buffer);
    if (n > 0) {
      write_whole(to, std::string_view(buffer, static_cast<std::size_t>(n)));
    }
    return n > 0;
  };
  pollfd ready[2] = {{0, POLLIN, 0}, {next_out, POLLIN, 0}};
  bool goes_on = true;
  while (goes_on && poll(ready, further > 0 ? 2 : 1, -1) > 0) {
    goes_on =
        (ready[0].revents == 0 || copy(0, next_in)) && (further == 0 || ready[1].revents == 0 || copy(next_out, 1));
  }
  return 0;
}

struct Subject {
  std::string name;
  std::function<void()> round;
  Samples samples{};
};

void measure(std::vector<Subject>& subjects, int rounds) {
  for (int done = -batch; done < rounds; done += batch) {
    for (Subject& subject : subjects) {
      for (int i = 0; i < batch; ++i) {
        const Clock::time_point begin = Clock::now();
        subject.round();
        if (done >= 0) {
          subject.samples.add(microseconds_since(begin));
        }
      }
    }
  }
  for (const Subject& subject : subjects) {
    std::printf("%s %zu %.2f %.2f\n", subject.name.c_str(), subject.samples.count(), subject.samples.quantile(0.5),
                subject.samples.quantile(0.99));
  }
}

int main_of(const std::string& program, int rounds) {
  Server server(program);
  std::vector<std::unique_ptr<Chain>> chains;
  std::vector<Subject> subjects;
  std::string host;
  for (int hops = 0; hops <= max_hops; ++hops) {
    if (hops > 0) {
      server.call("host/connect", R"({"name":"hop","argv":[")" + program + R"("],"host":")" + host + "\"}",
                  "\"ready\"");
      host += host.empty() ? "hop" : "/hop";
    }
    server.call("session/create", R"({"session":"bench","host":")" + host + "\"}", "\"ready\"");
    const std::string count = std::to_string(hops);
    chains.push_back(std::make_unique<Chain>(hops));
    subjects.push_back({"pipe-" + count, [&chain = *chains.back()] { chain.round(); }});
    subjects.push_back(
        {"ping-" + count, [&server, host] { server.call("ping", R"({"host":")" + host + "\"}", "\"time\""); }});
    subjects.push_back({"run-" + count, [&server, host] {
                          server.call("session/run", R"({"session":"bench","command":"true","host":")" + host + "\"}",
                                      "\"exitCode\":0");
                        }});
  }
  measure(subjects, rounds);
  return 0;
}

}  // namespace
}  // namespace rex::bench

int main(int count, char** arguments) {
  if (count == 3 && std::string_view(arguments[1]) == "--relay") {
    return rex::bench::relay_of(std::atoi(arguments[2]));
  }
  return count == 3 ? rex::bench::main_of(arguments[1], std::atoi(arguments[2])) : 2;
}
