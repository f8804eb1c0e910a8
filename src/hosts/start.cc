#include "hosts/start.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/fd.h"
#include "hosts/patience.h"
#include "hosts/start_reader.h"

namespace rex::hosts {
namespace {

using relay::Attempt;
using relay::Reached;

constexpr std::size_t read_bytes = 64 * 1024;
constexpr std::size_t max_noise_told = 1024;
constexpr std::size_t max_question_told = 200;

// A push tells how far it is about so often.
constexpr std::int64_t told_parts = 20;

/// One conversation with a shell.
class Start {
 public:
  Start(Executor executor, Far far, StartScript script, StartOptions options, Attempt* attempt)
      : far_(std::move(far)),
        script_(std::move(script)),
        options_(options),
        attempt_(attempt),
        reader_(script_.sentinel),
        patience_(executor, far_.transport.get(), attempt->cancel(), options.patience) {}

  Task<std::optional<Reached>> run(std::vector<Agent> agents);

 private:
  Task<StartLine> next_line();
  Task<> write(std::string_view text);
  Task<> push(Agent agent, std::string place);
  Task<Reached> install(Agent agent, std::string machine);
  Task<Reached> use_path(std::string why_not_installed);
  Reached reached(std::string took);

  [[noreturn]] void fail(std::string problem) const;
  [[nodiscard]] std::string what_ended_it() const;

  Far far_;
  StartScript script_;
  StartOptions options_;
  Attempt* attempt_;
  StartReader reader_;
  Patience patience_;
  std::string phase_ = "shell";
  bool answered_ = false;  // our script has spoken
};

/// Whether a wish or the clock has ended the stream, or it ended by itself; and what there was to read meanwhile.
void Start::fail(std::string problem) const {
  if (attempt_->cancel()) {
    throw Error(Fault::RequestCancelled, "the connect was cancelled");
  }
  const std::size_t size = reader_.noise_bytes();
  if (size != 0) {
    problem += "; it had printed " + std::to_string(size) +
               " bytes: " + printable(std::string_view(reader_.noise()).substr(0, max_noise_told), max_noise_told);
    if (size > max_noise_told) {
      const std::string& end = reader_.last_noise();
      problem += " … and at last: " +
                 printable(end.substr(end.size() - std::min(end.size(), max_question_told)), max_question_told * 4);
    }
  }
  throw host_unreachable(phase_, std::move(problem), "");
}

std::string Start::what_ended_it() const {
  if (patience_.has_expired()) {
    const std::string seconds = std::to_string(options_.patience.count() / 1000) + " s";
    const bool asks = !reader_.last_noise().empty() && reader_.last_noise().back() != '\n';
    return answered_ ? "the far side made no progress for " + seconds
           : asks    ? "no shell answered within " + seconds + ": it seems to wait for an answer to its last line"
                     : "no shell answered within " + seconds + ": it reads nothing, or its start files wait" +
                        (options_.is_typed ? "" : ", or it is made to run another command");
  }
  const std::string words = far_.last_words ? far_.last_words() : "";
  return (answered_ ? "the stream ended before a rex-rpc ran" : "the stream ended before a shell answered") +
         (words.empty() ? "" : " (" + words + ")");
}

Task<StartLine> Start::next_line() {
  const auto buffer = std::make_unique<std::array<char, read_bytes>>();
  while (true) {
    if (std::optional<StartLine> line = reader_.next()) {
      if (line->has_carriage_return) {
        fail("a terminal stands between us and the shell and changes what passes: connect without one (no -t)");
      }
      answered_ = true;
      patience_.renew();
      co_return std::move(*line);
    }
    if (reader_.is_flooded()) {
      fail("the far side prints without end, and no shell has answered");
    }
    std::size_t n = 0;
    try {
      n = co_await far_.transport->read_some(*buffer);
    } catch (const Error& error) {
      reader_.finish();
      fail(error.message());
    }
    if (n == 0) {
      reader_.finish();
      fail(what_ended_it());
    }
    reader_.feed(std::string_view(buffer->data(), n));
  }
}

Task<> Start::write(std::string_view text) {
  while (!text.empty()) {
    std::size_t n = 0;
    try {
      n = far_.transport->try_write(text);
    } catch (const Error&) {
      co_return;  // why it takes nothing more, what comes back will say
    }
    text.remove_prefix(n);
    if (n != 0) {
      patience_.renew();
    } else if (patience_.has_expired() || attempt_->cancel()) {
      co_return;
    } else {
      co_await far_.transport->writable();
    }
  }
}

Task<> Start::push(Agent agent, std::string place) {
  const Fd file(::open(agent.path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto buffer = std::make_unique<std::array<char, read_bytes>>();
  std::int64_t told = -1;
  for (std::int64_t sent = 0; sent < agent.size;) {
    if (const std::int64_t part = sent * told_parts / agent.size; part != told) {
      told = part;
      attempt_->phase("install", std::to_string(sent) + " of " + std::to_string(agent.size) + " bytes to " + place);
    }
    const ssize_t n = ::read(file.get(), buffer->data(),
                             static_cast<std::size_t>(std::min<std::int64_t>(read_bytes, agent.size - sent)));
    if (n <= 0) {
      throw os_error("cannot read", n == 0 ? EIO : errno, agent.path);
    }
    co_await write(std::string_view(buffer->data(), static_cast<std::size_t>(n)));
    sent += n;
  }
}

Task<Reached> Start::install(Agent agent, std::string machine) {
  phase_ = "install";
  attempt_->phase("install", "a rex-rpc for " + machine);
  const std::string command = install_command(agent) + "\n";
  co_await write(command);
  std::string tried;
  while (true) {
    const StartLine line = co_await next_line();
    if (line.word == "send") {
      co_await push(agent, printable(line.text));
    } else if (line.word == "tried") {
      tried += "; " + printable(line.text, max_noise_told);
    } else if (line.word == "ready") {
      co_return reached("installed " + printable(line.text));
    } else {
      fail("there is no place on the host that a rex-rpc could be put to and run from" + tried);
    }
  }
}

Task<Reached> Start::use_path(std::string why_not_installed) {
  const std::string command = path_command() + "\n";
  co_await write(command);
  const StartLine line = co_await next_line();
  if (line.word != "ready") {
    phase_ = "install";
    fail(std::move(why_not_installed));
  }
  co_return reached("its own " + printable(line.text));
}

Reached Start::reached(std::string took) {
  patience_.end();
  reader_.finish();  // a rex-rpc does not speak first: what came behind the last line is noise too
  Reached reached;
  reached.transport = std::move(far_.transport);
  reached.took = std::move(took);
  reached.noise = reader_.noise();
  reached.last_words = std::move(far_.last_words);
  return reached;
}

std::string without_agent(const std::string& machine) {
  return "the host has no rex-rpc of this version, and none for " + machine + " was found in " + Agents::places();
}

Task<std::optional<Reached>> Start::run(std::vector<Agent> agents) {
  attempt_->phase("shell", "");
  if (options_.is_typed) {
    const std::string line = script_.line + "\n";
    co_await write(line);
  }
  std::optional<StartLine> line;
  try {
    line = co_await next_line();
  } catch (const Error&) {
    if (!attempt_->cancel() && !patience_.has_expired() && reader_.noise_bytes() == 0 && far_.ended_well()) {
      co_return std::nullopt;
    }
    throw;
  }
  if (line->word == "ready") {
    co_return reached(printable(line->text));
  }
  if (line->word != "need") {
    fail("the far side answered what it was not asked");
  }
  const std::size_t slash = std::min(line->text.find('/'), line->text.size());
  const std::string system = line->text.substr(0, slash);
  const std::string arch = canonical_arch(line->text.substr(std::min(slash + 1, line->text.size())));
  const std::string machine = printable((system.empty() ? "Linux" : system) + " on " +
                                        (arch.empty() ? "a machine that does not say which" : arch));
  if (!system.empty() && system != "Linux") {
    phase_ = "install";
    fail("the host runs " + machine + ", and a rex-rpc needs Linux");
  }
  if (!options_.install) {
    co_return co_await use_path("the host has no rex-rpc of this version, and none may be installed");
  }
  // Where nobody says which machine it is, it is most likely one like ours.
  const auto agent = std::find_if(agents.begin(), agents.end(), [&arch](const Agent& candidate) {
    return candidate.arch == (arch.empty() ? own_arch() : arch);
  });
  if (agent == agents.end()) {
    co_return co_await use_path(without_agent(machine));
  }
  co_return co_await install(*agent, machine);
}

}  // namespace

Task<std::optional<Reached>> start(Executor executor, Far far, StartScript script, std::vector<Agent> agents,
                                   StartOptions options, Attempt* attempt) {
  Start start(executor, std::move(far), std::move(script), options, attempt);
  co_return co_await start.run(std::move(agents));
}

}  // namespace rex::hosts
