#include "shell/session.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "shell/environment.h"

namespace rex::shell {
namespace {

std::string single_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::string nearest_existing(std::string path) {
  while (!path.empty() && path != "/") {
    struct stat info{};
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return path;
    }
    path.resize(std::max<std::size_t>(path.rfind('/'), 1) == std::string::npos ? 0 : path.rfind('/'));
  }
  return "/";
}

bool is_executable(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0;
  }
  std::size_t at = 0;
  while (at <= path.size()) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (access((path.substr(at, end - at) + "/" + name).c_str(), X_OK) == 0) {
      return true;
    }
    at = end + 1;
  }
  return false;
}

}  // namespace

Session::Session(Executor executor, const Shared& shared, CreateOptions options)
    : executor_(executor),
      shared_(shared),
      options_(std::move(options)),
      env_(make_environment(options_.clear_env, options_.env, options_.profile)),
      created_at_(now_utc()),
      journal_({.capacity = options_.journal_bytes, .memory = shared.journal_memory}),
      input_(executor),
      events_(shared.events) {
  if (!options_.tty) {
    err_journal_ = std::make_unique<Journal>(
        Journal::Options{.capacity = options_.journal_bytes, .memory = shared.journal_memory});
  }
  if (options_.argv.empty()) {
    if (!options_.shell) {
      options_.shell = is_executable("bash", variable(env_, "PATH")) ? "bash" : "sh";
    }
    // A person wants the shell's own prompt and line editing: it runs as it is and is typed to.
    dialect_ = options_.profile == Profile::agent ? dialect_for(*options_.shell) : nullptr;
    options_.argv = {*options_.shell};
    const std::vector<std::string> arguments =
        dialect_ != nullptr ? dialect_->arguments(options_.startup) : std::vector<std::string>{"-i"};
    options_.argv.insert(options_.argv.end(), arguments.begin(), arguments.end());
  }
}

Session::~Session() = default;

IncarnationOptions Session::incarnation_options(std::string cwd) const {
  IncarnationOptions options;
  options.launch.argv = options_.argv;
  options.launch.env = env_;
  if (dialect_ != nullptr) {  // no prompt before our first line, which takes them out of the environment again
    const bool clean = options_.startup == Startup::clean;
    std::erase_if(options.launch.env, [clean](const std::string& v) {
      return v.starts_with("PS1=") || v.starts_with("PS2=") ||
             (clean && (v.starts_with("ENV=") || v.starts_with("HISTFILE=")));  // files that sh and bash would read
    });
    options.launch.env.insert(options.launch.env.end(), {"PS1=", "PS2="});
    if (clean) {
      options.launch.env.push_back("HISTFILE=");
    }
  }
  options.launch.cwd = std::move(cwd);
  options.launch.limits = rlimits_for(options_.limits);
  options.dialect = dialect_;
  options.reads_user_files = options_.startup != Startup::clean || !variable(env_, "SHELLOPTS").empty();
  options.tty = options_.tty;
  options.cooked = options_.profile == Profile::human;
  options.size = {options_.rows, options_.cols};
  return options;
}

Task<> Session::start(Cancel& cancel) {
  const std::shared_ptr<Session> self = shared_from_this();
  starting_ = true;
  const auto give_up = [this] {
    start_cancelled_ = true;
    changed_.notify();
  };
  const Cancel::Listener listener(cancel, give_up);
  try {
    co_await start_incarnation(options_.cwd);
  } catch (...) {
    starting_ = false;
    closed_ = true;
    changed_.notify();
    throw;
  }
  starting_ = false;
  announce_state();
  changed_.notify();
}

Task<> Session::start_incarnation(std::string cwd) {
  const TimePoint begin = Clock::now();
  const TimePoint deadline = deadline_after(options_.startup_timeout);
  ready_ = false;
  alone_ = false;
  startup_ = {};
  IncarnationOptions options = incarnation_options(std::move(cwd));
  std::shared_ptr<Incarnation> started = co_await Incarnation::start(executor_, shared_.nursery, std::move(options));
  if (closed_) {
    co_await started->program().end_tree({});
    throw_ended();
  }
  incarnation_ = std::move(started);
  ++generation_;
  out_ended_ = false;
  err_ended_ = options_.tty;
  watch_terminal();
  if (dialect_ == nullptr) {  // before the pumps, which may find its output and its end at once
    ready_ = true;
    std::string words;
    for (const std::string& word : options_.argv) {
      words += (words.empty() ? "" : " ") + word;
    }
    begin_job(words);
  }
  const std::shared_ptr<Session> self = shared_from_this();
  spawn(executor_, watch_program(self, incarnation_));
  spawn(executor_, pump_output(self, incarnation_, Stream::out));
  if (!options_.tty) {
    spawn(executor_, pump_output(self, incarnation_, Stream::err));
  }
  if (dialect_ == nullptr) {
    co_return;
  }
  spawn(executor_, pump_reports(self, incarnation_));
  spawn(executor_, watch_replaced(self, incarnation_));
  co_await await_ready(deadline);
  co_await source_startup_files(deadline);
  ready_ = true;
  startup_.duration_ms = milliseconds_since(begin);
}

Task<> Session::await_ready(TimePoint deadline) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  const std::shared_ptr<Incarnation> mine = incarnation_;
  while (internal_done_ == 0 && can_become_ready(*mine, deadline)) {
    co_await waiter.until(deadline);
  }
  if (internal_done_ != 0) {
    co_return;
  }
  const std::string why = why_not_ready(*mine);
  std::string output = collect_startup();
  co_await abandon_start();
  throw Error(Fault::StartFailed, why).with("output", std::move(output));
}

bool Session::can_become_ready(Incarnation& in, TimePoint deadline) const {
  return !closed_ && !start_cancelled_ && !in.program().ended() && !in.replaced && Clock::now() < deadline;
}

std::string Session::why_not_ready(Incarnation& in) const {
  return in.program().ended() ? "the shell ended while it started"
         : in.replaced        ? "the shell was replaced by another program while it started"
         : closed_            ? "the session was closed while it started"
         : start_cancelled_   ? "the start was cancelled"
                              : "the shell did not become ready in time (startupTimeoutMs)";
}

Task<> Session::source_startup_files(TimePoint deadline) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  std::uint64_t number = first_internal_number;
  for (const std::string& path : options_.startup_source) {
    const std::shared_ptr<Incarnation> mine = incarnation_;
    mine->driver()->run(++number, ". " + single_quoted(path), {mine->tty_path(), std::nullopt});
    while (internal_done_ != number && can_become_ready(*mine, deadline)) {
      co_await waiter.until(deadline);
    }
    if (internal_done_ != number) {
      Error error(Fault::StartFailed, "while it sourced " + printable(path) + ": " + why_not_ready(*mine));
      error = std::move(error).with("output", collect_startup());
      co_await abandon_start();
      throw error;
    }
    if (internal_status_ != 0) {
      startup_.warnings.push_back(printable(path) + " ended with status " + std::to_string(internal_status_));
    }
    if (access(path.c_str(), R_OK) == 0) {
      startup_.sourced.push_back(path);
    }
  }
}

/// Nothing of a shell that could not be made ready stays.
Task<> Session::abandon_start() {
  const std::shared_ptr<Incarnation> failed = std::exchange(incarnation_, nullptr);
  if (failed) {
    co_await failed->program().end_tree({});
    failed->shut();
  }
}

std::string Session::collect_startup() const {
  OutputText text(View::clean, max_startup_output, 0);
  text.feed(startup_.output);
  return text.finish().output;
}

Task<> Session::ensure_alive() {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  while (starting_ && !closed_) {
    co_await waiter.until(never);
  }
  const bool may_restart = dialect_ != nullptr && options_.restart;
  if (closed_ || (!incarnation_ && !may_restart)) {
    throw_ended();
  }
  if (incarnation_ && !incarnation_->program().ended()) {
    co_return;
  }
  if (!may_restart) {
    throw_ended();
  }
  // The old one is let go of before the new one opens a descriptor.
  Restarted restarted = retire_incarnation();
  starting_ = true;
  try {
    internal_done_ = 0;
    co_await start_incarnation(nearest_existing(cwd_));
  } catch (...) {
    starting_ = false;
    restarted_ = std::move(restarted);  // for the run that finds the next one
    changed_.notify();
    throw;
  }
  starting_ = false;
  announce({.kind = SessionEvent::Kind::restarted, .exit_code = restarted.exit_code, .cause = restarted.cause});
  announce_state();
  restarted_ = std::move(restarted);
  changed_.notify();
}

/// Lets go of a dead shell; what it left behind is kept in sight until the session is closed.
Restarted Session::retire_incarnation() {
  std::erase_if(former_, [](const std::shared_ptr<Incarnation>& each) { return each->others().empty(); });
  const std::shared_ptr<Incarnation> old = std::exchange(incarnation_, nullptr);
  if (!old) {
    return restarted_.value_or(Restarted{"could not be started", std::nullopt});
  }
  if (!old->others().empty()) {
    former_.push_back(old);
  }
  old->shut();
  const std::optional<ProgramExit>& exit = old->program().exit();
  if (!exit) {
    return {"lost", std::nullopt};
  }
  return {exit->exit_code() ? "exited" : "signal " + std::to_string(exit->signal().value_or(0)), exit->exit_code()};
}

void Session::throw_ended() const { throw Error(Fault::SessionEnded, "session " + printable(name()) + " has ended"); }

bool Session::ended_for_good() const {
  const bool dead = !starting_ && (!incarnation_ || incarnation_->program().ended());
  // While there is a job, its end has still to be told.
  return closed_ || (dead && !current_ && (dialect_ == nullptr || !options_.restart));
}

Task<CloseResult> Session::close(Milliseconds grace) {
  const std::shared_ptr<Session> self = shared_from_this();
  if (closed_) {
    throw_ended();
  }
  closed_ = true;
  closing_.notify();
  if (current_) {
    JobEnd end{};
    end.state = RunState::cancelled;
    end.cwd = cwd_;
    end_job(std::move(end));
  }
  changed_.notify();
  CloseResult result;
  std::vector<std::shared_ptr<Incarnation>> all = std::move(former_);
  if (incarnation_) {
    all.push_back(incarnation_);
  }
  for (const std::shared_ptr<Incarnation>& each : all) {
    // Interactive shells ignore TERM and end on HUP; most other programs end on either.
    std::vector<EndStep> steps{{SIGHUP, 0}, {SIGTERM, static_cast<std::int32_t>(grace.count())}};
    TreeEnd end = co_await each->program().end_tree(std::move(steps));
    result.survivors.insert(result.survivors.end(), end.survivors.begin(), end.survivors.end());
  }
  if (incarnation_) {
    announce_exit(*incarnation_);
    if (const std::optional<ProgramExit>& exit = incarnation_->program().exit()) {
      result.exit_code = exit->exit_code();
      result.signal = exit->signal();
    }
    for (const std::shared_ptr<Incarnation>& each : all) {
      each->shut();
    }
    incarnation_.reset();
  }
  announce_state();
  changed_.notify();
  co_return result;
}

}  // namespace rex::shell
