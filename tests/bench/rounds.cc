// Round trips, one subject after the other in small batches, so that whatever else the machine does meets all alike.
// Prints one line a subject: name, samples, median and 99th percentile in µs, CPU in µs a round trip of the caller, of
// what it called, and of the shell therein. Must not judge: bench.py knows the targets.
#include <sys/mman.h>

#include <functional>
#include <memory>

#include "tests/bench/support.h"

namespace rex::bench {
namespace {

constexpr int batch = 50;

struct Subject {
  std::string name;
  int rarity = 1;  // one round trip for so many of the others: what takes a process each time is not done as often
  std::function<void()> round{};
  std::vector<pid_t> processes{};  // whose CPU time is counted, besides ours
  pid_t shell = 0;                 // the one of them that is told apart
  Samples samples{};
  double caller = 0;
  double called = 0;
  double in_shell = 0;
};

/// A real shell on a bare raw pty, driven the cheapest way that still sees the end of a command: `true` and `echo` on
/// one line, and the line feed of `echo` is the answer. No prompt, editing or history; and no exit code, directory,
/// journal, JSON or guard against what a command may do. With bash, this is the floor that the targets
/// mean: 18 to 25 µs where they were set, with both processes on one CPU; over two CPUs it is about twice that.
std::unique_ptr<RawPty> bare_shell(const std::vector<std::string>& argv, const std::string& setup) {
  auto pty = std::make_unique<RawPty>(argv);
  pty->type("unset MAILCHECK PROMPT_COMMAND; " + setup + "echo\n");
  pty->read_to('\n');
  return pty;
}

/// The least that still knows what a session/run knows: bash reads its lines from a pipe, takes the command as data
/// from a memory file, with the terminal for its stdin, and reports code and directory on a pipe of its own. That is
/// what exact codes and untyped commands ask of a shell, without us around it.
class BareDriver {
 public:
  BareDriver() {
    int lines[2];
    int reports[2];
    if (pipe2(lines, O_CLOEXEC) != 0 || pipe2(reports, O_CLOEXEC) != 0) {
      fail("pipe2");
    }
    to_ = lines[1];
    from_ = reports[0];
    command_ = memfd_create("command", MFD_CLOEXEC);
    termios modes{};
    cfmakeraw(&modes);
    pid_ = forkpty(&master_, nullptr, &modes, nullptr);
    if (pid_ == 0) {
      dup2(lines[0], 0);
      setenv("PS1", "", 1);
      execlp("bash", "bash", "--norc", "--noprofile", "--noediting", "-i", nullptr);
      _exit(127);
    }
    close(lines[0]);
    report_writer_ = reports[1];
    const std::string here = "/proc/" + std::to_string(getpid()) + "/fd/";
    line_ = ". " + here + std::to_string(command_) + " </dev/tty; printf '%s %s\\0' \"$?\" \"$PWD\" >|" + here +
            std::to_string(report_writer_) + "\n";
    write_whole(to_, "set +o history; unset MAILCHECK PROMPT_COMMAND; PS1=\n");
  }
  ~BareDriver() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (const int fd : {to_, from_, command_, master_, report_writer_}) {
      close(fd);
    }
  }
  BareDriver(const BareDriver&) = delete;
  BareDriver& operator=(const BareDriver&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  void round() {
    if (ftruncate(command_, 0) != 0 || pwrite(command_, "true\n", 5, 0) != 5) {
      fail("memory file");
    }
    write_whole(to_, line_);
    char report[4096];
    const ssize_t n = read(from_, report, sizeof report);
    if (n < 3 || report[0] != '0' || report[n - 1] != '\0') {
      fail("no report");
    }
  }

 private:
  int to_ = -1;
  int from_ = -1;
  int command_ = -1;
  int master_ = -1;
  int report_writer_ = -1;
  pid_t pid_ = -1;
  std::string line_;
};

double cpu_of_all(const std::vector<pid_t>& processes) {
  double sum = 0;
  for (const pid_t pid : processes) {
    sum += cpu_of(pid);
  }
  return sum;
}

void measure(std::vector<Subject>& subjects, int rounds) {
  for (Subject& subject : subjects) {
    for (int i = 0; i < std::max(rounds / subject.rarity / 10, 20); ++i) {
      subject.round();
    }
    subject.called = -cpu_of_all(subject.processes);
    subject.in_shell = -cpu_of(subject.shell);
  }
  for (int done = 0; done < rounds; done += batch) {
    for (Subject& subject : subjects) {
      const double before = own_cpu();
      for (int i = 0; i < std::max(batch / subject.rarity, 1); ++i) {
        const Clock::time_point begin = Clock::now();
        subject.round();
        subject.samples.add(microseconds_since(begin));
      }
      subject.caller += own_cpu() - before;
    }
  }
  for (Subject& subject : subjects) {
    subject.called += cpu_of_all(subject.processes);
    subject.in_shell += cpu_of(subject.shell);
    const auto count = static_cast<double>(subject.samples.count());
    std::printf("%s %.0f %.2f %.2f %.2f %.2f %.2f\n", subject.name.c_str(), count, subject.samples.quantile(0.5),
                subject.samples.quantile(0.99), subject.caller / count, subject.called / count,
                subject.in_shell / count);
  }
}

pid_t shell_of(Server& server, const std::string& session) {
  const std::string info(server.call("session/info", R"({"session":")" + session + "\"}", "\"pid\":"));
  return std::atoi(info.c_str() + info.find("\"pid\":") + 6);
}

/// A shell behind a rex-rpc of its own, so that each has its CPU time to itself.
Subject session_run(Server& server, const std::string& shell) {
  server.call("session/create", R"({"session":"bench","shell":")" + shell + "\"}", "\"ready\"");
  Subject subject;
  subject.name = "run-" + shell;
  subject.round = [&server] {
    server.call("session/run", R"({"session":"bench","command":"true"})", "\"exitCode\":0");
  };
  subject.processes = family(server.pid());
  subject.shell = shell_of(server, "bench");
  return subject;
}

int main_of(const std::string& program, int rounds) {
  const auto bytes = std::make_unique<RawPty>(std::vector<std::string>{"/proc/self/exe", "--answer-bytes"});
  const auto bash = bare_shell({"bash", "--norc", "--noprofile", "--noediting", "-i"}, "set +o history; ");
  const auto dash = bare_shell({"dash", "-i"}, "");
  BareDriver driver;
  Server for_bash(program);
  Server for_dash(program);
  Server for_zsh(program);
  Server for_fish(program);
  Server for_ping(program);
  Server for_process(program);
  const auto on_pty = [](const char* name, RawPty& pty, const char* line) {
    return Subject{name,
                   1,
                   [&pty, line] {
                     pty.type(line);
                     pty.read_to('\n');
                   },
                   {pty.pid()},
                   pty.pid()};
  };
  std::vector<Subject> subjects;
  subjects.push_back(on_pty("pty-byte", *bytes, "\n"));
  subjects.push_back(on_pty("pty-bash", *bash, "true;echo\n"));
  subjects.push_back({"driver-bash", 1, [&driver] { driver.round(); }, {driver.pid()}, driver.pid()});
  subjects.push_back(session_run(for_bash, "bash"));
  subjects.push_back(on_pty("pty-dash", *dash, "true;echo\n"));
  subjects.push_back(session_run(for_dash, "dash"));
  subjects.push_back(session_run(for_zsh, "zsh"));
  subjects.push_back(session_run(for_fish, "fish"));
  subjects.push_back({"ping", 1, [&] { for_ping.call("ping", "{}", "\"time\""); }, family(for_ping.pid())});
  subjects.push_back({"spawn-true", 10, [] { run_to_end({"true"}); }});
  subjects.push_back(
      {"process-run", 10, [&] { for_process.call("process/run", R"({"command":["true"]})", "\"exitCode\":0"); }});
  subjects.push_back({"spawn-bash-c", 10, [] { run_to_end({"bash", "-c", "true"}); }});
  measure(subjects, rounds);
  return 0;
}

}  // namespace
}  // namespace rex::bench

int main(int count, char** arguments) {
  if (count == 2 && std::string_view(arguments[1]) == "--answer-bytes") {
    char byte = 0;
    while (read(0, &byte, 1) == 1 && write(1, &byte, 1) == 1) {
    }
    return 0;
  }
  return count == 3 ? rex::bench::main_of(arguments[1], std::atoi(arguments[2])) : 2;
}
