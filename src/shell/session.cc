#include "shell/session.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "shell/environment.h"

namespace rex::shell {
namespace {

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

/// Where journals begin. A test has them begin where nobody gets in the time of a test (tests/README.md).
Offset first_offset() {
  const char* const given = std::getenv("REX_TEST_FIRST_OFFSET");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 0;
}

}  // namespace

Session::Session(Executor executor, const Shared& shared, CreateOptions options)
    : executor_(executor),
      shared_(shared),
      options_(std::move(options)),
      env_(make_environment(options_.clear_env, options_.env, options_.profile)),
      created_at_(now_utc()),
      journal_({.capacity = options_.journal_bytes, .start = first_offset(), .memory = shared.journal_memory}),
      terminal_(journal_, {options_.rows, options_.cols}, !options_.tty || options_.profile == Profile::agent),
      input_(executor),
      events_(shared.events) {
  if (!options_.tty) {
    err_journal_ = std::make_unique<Journal>(
        Journal::Options{.capacity = options_.journal_bytes, .start = first_offset(), .memory = shared.journal_memory});
  }
  if (options_.argv.empty()) {
    choose_shell();
  }
}

Session::~Session() = default;

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
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  while (starting_) {  // a start gives up now, and ends what it has started
    co_await waiter.until(never);
  }
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
