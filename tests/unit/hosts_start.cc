// From a shell to a rex-rpc: what is ours among the noise, whatever the far side prints, and each way it can fail.

#include <sys/stat.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/digest.h"
#include "base/error.h"
#include "hosts/start.h"
#include "hosts/start_reader.h"
#include "hosts_support.h"

using namespace rex;
using namespace rex::hosts;

namespace fs = std::filesystem;

namespace {

struct Recorded final : relay::Attempt {
  void phase(std::string_view name, std::string_view /*detail*/) override { phases += std::string(name) + " "; }
  Task<std::string> ask(relay::Prompt /*prompt*/) override { throw host_unreachable("auth", "nobody to ask"); }
  Cancel& cancel() override { return wish; }

  std::string phases;
  Cancel wish;
};

/// A folder that is the far side's home and cache, and what a rex-rpc is there: a script that answers as one.
struct World {
  World() {
    std::string pattern = (fs::temp_directory_path() / "rex-start-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    write(
        "agent",
        R"(#!/bin/sh
case $1 in
agent) case $2 in
  verify) [ -e "$0.broken" ] || echo "$3";;
  adopt) [ ! -e ")" +
            folder +
            R"(/refuse" ] || { echo "checksum differs" >&2; exit 1; }; mkdir -p "$4"; mv "$0" "$4/rex-rpc"; echo "$3";;
  esac;;
--private) read line; echo "served $line";;
esac
)");
    agent.arch = own_arch();
    agent.path = folder + "/agent";
    agent.size = static_cast<std::int64_t>(fs::file_size(agent.path));
    agent.name = "1-" + agent.arch + "-" + sha256_of_file(agent.path).substr(0, 32);
    fs::create_directory(folder + "/home");
  }
  ~World() { fs::remove_all(folder); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder + "/" + name) << text;
    ::chmod((folder + "/" + name).c_str(), 0755);
  }
  /// env(1) before `argv`, so that the far side has a home of its own.
  [[nodiscard]] std::vector<std::string> at_home(const std::vector<std::string>& argv) const {
    std::vector<std::string> all{"env", "-u", "XDG_CACHE_HOME", "HOME=" + folder + "/home"};
    all.insert(all.end(), argv.begin(), argv.end());
    return all;
  }
  [[nodiscard]] std::string installed() const { return folder + "/home/.cache/rex-rpc/" + agent.name + "/rex-rpc"; }

  std::string folder;
  Agent agent;
};

struct Outcome {
  std::optional<relay::Reached> reached;
  std::string phase;   // of HostUnreachable
  std::string detail;  // likewise
  std::string phases;
  std::string served;  // what the rex-rpc there answers
};

Task<> try_to_start(Executor executor, std::vector<std::string> argv, std::vector<Agent> agents, StartOptions options,
                    Outcome* outcome) {
  transports::Executed executed = co_await transports::execute(executor, test::spawner(executor), std::move(argv));
  Far far{std::move(executed.transport), executed.last_words, executed.ended_well};
  Recorded attempt;
  try {
    StartScript script = make_start_script(agents);
    outcome->reached =
        co_await start(executor, std::move(far), std::move(script), std::move(agents), options, &attempt);
    if (outcome->reached) {
      outcome->reached->transport->try_write("hello\n");
      outcome->served = co_await test::read_all(*outcome->reached->transport);
    }
  } catch (const Error& error) {
    REQUIRE(error.fault() == Fault::HostUnreachable);
    outcome->phase = std::get<std::string>(error.facts().at(0).second);
    outcome->detail = error.message();
  }
  outcome->phases = attempt.phases;
}

Outcome start_in(std::vector<std::string> argv, std::vector<Agent> agents, StartOptions options = {}) {
  ::signal(SIGPIPE, SIG_IGN);
  Loop loop{1};
  Outcome outcome;
  test::run(loop, try_to_start(loop.get_executor(), std::move(argv), std::move(agents), options, &outcome));
  if (outcome.reached) {
    outcome.reached->transport.reset();
  }
  return outcome;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("A line is ours from its sentinel on, however the bytes come; all else is noise", "[T11][H8]") {
  const std::string stream = "Last login\x1b[0m\nContent-Length: 2\r\n\r\n{}SENSENTI\nmotd SENTINEL ready /a b\nrest";
  for (std::size_t chunk = 1; chunk <= stream.size(); ++chunk) {
    StartReader reader("SENTINEL");
    std::optional<StartLine> line;
    for (std::size_t at = 0; at < stream.size(); at += chunk) {
      reader.feed(std::string_view(stream).substr(at, chunk));
      if (!line) {
        line = reader.next();
      }
    }
    REQUIRE(line);
    CHECK(line->word == "ready");
    CHECK(line->text == "/a b");
    CHECK_FALSE(line->has_carriage_return);
    CHECK(reader.noise() == "Last login\x1b[0m\nContent-Length: 2\r\n\r\n{}SENSENTI\nmotd ");
    reader.finish();
    CHECK(reader.noise().ends_with("motd rest"));
  }
}

TEST_CASE("Of a flood of noise the beginning and the end are kept, and where it stops is found", "[T11][H8]") {
  StartReader reader("SENTINEL");
  for (int i = 0; i < 1024; ++i) {
    reader.feed(std::string(1024, i == 0 ? 'a' : 'b'));
    CHECK_FALSE(reader.next());
  }
  reader.feed("press enter: ");
  CHECK_FALSE(reader.next());
  reader.feed("SENTINEL need Linux/x86_64\r\n");
  const std::optional<StartLine> line = reader.next();
  REQUIRE(line);
  CHECK(line->text == "Linux/x86_64");
  CHECK(line->has_carriage_return);
  CHECK(reader.noise().size() == max_noise);
  CHECK(reader.noise().starts_with("aaaa"));
  CHECK(reader.last_noise().ends_with("bbbpress enter: "));
  CHECK(reader.noise_bytes() == 1024 * 1024 + 13);
  CHECK_FALSE(reader.is_flooded());
}

TEST_CASE("The start line is one line that every shell reads alike") {
  const StartScript script = make_start_script({Agent{"x86_64", "", 1, "1-x86_64-0123"}});
  CHECK(script.line.find_first_of("!\\\n\r\t") == std::string::npos);
  CHECK(std::count(script.line.begin(), script.line.end(), '\'') == 2);
  CHECK_FALSE(has(script.line, script.sentinel));
  CHECK(script.line.size() < 2048);
  CHECK(make_start_script({}).sentinel != script.sentinel);
}

TEST_CASE("A shell becomes a rex-rpc: pushed the first time, found the next", "[H1]") {
  const World world;
  const Outcome first = start_in(world.at_home({"sh"}), {world.agent});
  CHECK(first.detail.empty());
  CHECK(first.served == "served hello\n");
  CHECK(first.reached->took == "installed " + world.installed());
  CHECK(has(first.phases, "shell install install"));
  const Outcome next = start_in(world.at_home({"sh"}), {world.agent});
  CHECK(next.served == "served hello\n");
  CHECK(next.reached->took == world.installed());
  CHECK(next.phases == "shell ");
}

TEST_CASE("What stands at the place but is not what it is named for is pushed anew", "[H12]") {
  const World world;
  start_in(world.at_home({"sh"}), {world.agent});
  std::ofstream(world.installed() + ".broken").put('x');
  const Outcome again = start_in(world.at_home({"sh"}), {world.agent});
  CHECK(again.served == "served hello\n");
  CHECK(again.reached->took == "installed " + world.installed());
}

TEST_CASE("A push that arrives broken is refused, told, and leaves nothing", "[H12][H5]") {
  const World world;
  world.write("refuse", "");
  Outcome outcome = start_in(world.at_home({"sh"}), {world.agent});
  CHECK(outcome.phase == "install");
  CHECK(has(outcome.detail, "no place on the host"));
  CHECK(has(outcome.detail, "/.cache/rex-rpc: checksum differs"));
  CHECK(fs::is_empty(world.folder + "/home/.cache/rex-rpc"));
}

TEST_CASE("Nothing is installed where that is not wished, or there is nothing to install", "[H2]") {
  const World world;
  const Outcome forbidden = start_in(world.at_home({"sh"}), {world.agent}, {.install = false});
  CHECK(forbidden.phase == "install");
  CHECK(has(forbidden.detail, "none may be installed"));
  CHECK(fs::is_empty(world.folder + "/home"));
  Agent other = world.agent;
  other.arch = "vax";
  const Outcome none = start_in(world.at_home({"sh"}), {other});
  CHECK(none.phase == "install");
  CHECK(has(none.detail, "none for Linux on " + own_arch()));
}

TEST_CASE("Whatever is printed before and beside it, the rex-rpc is reached and the noise is told", "[T11][H8]") {
  const World world;
  start_in(world.at_home({"sh"}), {world.agent});
  const std::string megabyte =
      R"(head -c 1000000 /dev/zero | tr '\0' n; printf 'Content-Length: 2\r\n\r\n{}rex-rpc-0 ready /x\n'; exec sh)";
  const Outcome outcome = start_in(world.at_home({"sh", "-c", megabyte}), {world.agent});
  CHECK(outcome.served == "served hello\n");
  CHECK(outcome.reached->noise.size() == max_noise);
}

TEST_CASE("A far side that cannot become a rex-rpc is told in a sentence, with what it printed", "[T11][H8]") {
  struct Row {
    std::string script;
    std::string_view sentence;
    Milliseconds patience = start_patience;
  };
  const World world;
  for (const Row& row : std::vector<Row>{
           {"echo not today; exit 1",
            "ended before a shell answered (env exited with 1); it had printed 10 bytes: not today"},
           {"echo why >&2; exit 3", "(env exited with 3: why)"},
           {"sleep 30", "within 0 s: it reads nothing", Milliseconds(300)},
           {"printf 'legal\\nPress enter: '; exec sleep 30",
            "wait for an answer to its last line; it had printed 19 bytes", Milliseconds(3000)},
           {"read line; sleep 30", "its start files wait", Milliseconds(300)},
           {"cat", "no shell answered", Milliseconds(300)},
           {"yes", "prints without end"},
       }) {
    CAPTURE(row.script);
    const Outcome outcome =
        start_in(world.at_home({"sh", "-c", row.script}), {world.agent}, {.patience = row.patience});
    CHECK(outcome.phase == "shell");
    CAPTURE(outcome.detail);
    CHECK(has(outcome.detail, row.sentence));
    CHECK(outcome.detail.size() < 6000);
  }
}

TEST_CASE("What ends well without a byte may be a rex-rpc that was given a line of shell") {
  const World world;
  CHECK_FALSE(start_in({"sh", "-c", "read line; exit 0"}, {world.agent}).reached);
  CHECK(start_in({"sh", "-c", "read line; exit 0"}, {world.agent}).detail.empty());
  CHECK(start_in({"sh", "-c", "echo x >&2"}, {world.agent}).phase == "shell");
}

TEST_CASE("The start line is legal in every login shell, as a command and on its input", "[H8]") {
  const World world;
  start_in(world.at_home({"sh"}), {world.agent});
  for (const std::vector<std::string>& shell :
       std::vector<std::vector<std::string>>{{"bash"}, {"dash"}, {"zsh"}, {"tcsh"}, {"busybox", "sh"}, {"fish"}}) {
    CAPTURE(shell[0]);
    if (std::system(("command -v " + shell[0] + " >/dev/null").c_str()) != 0) {
      WARN("not installed: " << shell[0]);
      continue;
    }
    if (shell[0] != "fish") {  // reads its standard input to the end before it runs anything
      const Outcome typed = start_in(world.at_home(shell), {world.agent});
      CHECK(typed.detail.empty());
      CHECK(typed.served == "served hello\n");
    }
    // As sshd does it: the line is the command.
    Loop loop{1};
    Outcome outcome;
    const StartScript script = make_start_script({world.agent});
    std::vector<std::string> argv = world.at_home(shell);
    argv.insert(argv.end(), {"-c", script.line});
    std::string all;
    const auto run_command = [&](Executor executor) -> Task<> {
      transports::Executed executed = co_await transports::execute(executor, test::spawner(executor), argv);
      executed.transport->try_write("hello\n");
      all = co_await test::read_all(*executed.transport);
    };
    test::run(loop, run_command(loop.get_executor()));
    CHECK(all == script.sentinel + " ready " + world.installed() + "\nserved hello\n");
  }
}
