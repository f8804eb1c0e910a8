// How a session's shell comes to its first prompt, and what is told of that.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "shell/environment.h"
#include "shell/session.h"

namespace rex::shell {
namespace {

// How often a starting shell is looked at.
constexpr Milliseconds start_look{250};

/// A shell that cannot read its commands would be waited for until its time has passed. Throws StartFailed.
void require_proc() {
  if (access("/proc/self/fd", X_OK) != 0) {
    throw Error(Fault::StartFailed,
                "/proc is not mounted here, through which a shell reads its commands; `process/run` needs none")
        .with("output", "");
  }
}

/// Where a program is found, links followed; empty when it is not.
std::string real_program(const std::string& name, const std::string& path) {
  std::string found;
  if (name.find('/') != std::string::npos) {
    found = name;
  }
  for (std::size_t at = 0; found.empty() && at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string there = path.substr(at, end - at) + "/" + name;
    found = access(there.c_str(), X_OK) == 0 ? there : "";
    at = end + 1;
  }
  char* const real = found.empty() ? nullptr : realpath(found.c_str(), nullptr);
  const std::string result = real == nullptr ? "" : real;
  free(real);
  return result;
}

}  // namespace

void Session::choose_shell() {
  const std::string path = variable(env_, "PATH");
  if (!options_.shell) {
    options_.shell = real_program("bash", path).empty() ? "sh" : "bash";
  }
  // A person wants the shell's own prompt and line editing: it runs as it is and is typed to.
  dialect_ =
      options_.profile == Profile::agent ? dialect_for(*options_.shell, real_program(*options_.shell, path)) : nullptr;
  if (dialect_ != nullptr && dialect_->feed() == Feed::loop && !options_.tty) {
    dialect_ = nullptr;  // its loop is typed
  }
  options_.argv = {*options_.shell};
  const std::vector<std::string> arguments =
      dialect_ != nullptr ? dialect_->arguments(options_.startup) : std::vector<std::string>{"-i"};
  options_.argv.insert(options_.argv.end(), arguments.begin(), arguments.end());
}

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
  if (dialect_ != nullptr) {
    require_proc();
    startup_watch_ = std::make_unique<StartupWatch>(
        dialect_->startup_files(options_.startup, [this](const std::string& name) { return variable(env_, name); }));
  }
  std::shared_ptr<Incarnation> started = co_await Incarnation::start(executor_, shared_.nursery, std::move(options));
  if (closed_) {
    co_await started->program().end_tree({});
    throw_ended();
  }
  incarnation_ = std::move(started);
  ++generation_;
  out_ended_ = false;
  err_ended_ = options_.tty;
  if (options_.tty) {
    usual_modes_ = terminal_modes(incarnation_->input()->fd());
    terminal_.restore();  // of the one before
  }
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
  if (incarnation_->restore_modes()) {
    startup_.warnings.emplace_back("the terminal was left with other modes; it has its first ones again");
  }
  note_startup_files();
  co_await source_startup_files(deadline);
  ready_ = true;
  startup_.duration_ms = milliseconds_since(begin);
}

/// Until the shell has reported for the first time. Our first lines go on its standard input: something that reads
/// there meanwhile has eaten them, and they are sent again.
Task<> Session::await_ready(TimePoint deadline) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  const std::shared_ptr<Incarnation> mine = incarnation_;
  TimePoint look = Clock::now() + start_look;
  bool eaten = false;
  while (internal_done_ == 0 && can_become_ready(*mine, deadline)) {
    if (Clock::now() >= look) {
      look = Clock::now() + start_look;
      if (mine->at_its_lines()) {
        eaten = dialect_->feed() != Feed::loop;
        mine->driver()->start_again();
      }
    }
    co_await waiter.until(std::min(look, deadline));
  }
  const std::string other = other_shell();
  if (internal_done_ == 0 || !other.empty()) {
    co_await fail_start(why_not_ready(*mine));
  }
  if (eaten) {
    startup_.warnings.emplace_back("something read the shell's standard input while it started; it got nothing of use");
  }
}

/// The program that runs where our shell was started, when it is a shell of another kind (`exec zsh` in a file).
std::string Session::other_shell() const {
  const std::string own = real_program(options_.argv.front(), variable(env_, "PATH"));
  const std::string now = incarnation_ ? incarnation_->executable().value_or("") : "";
  const Dialect* const other = now == own ? nullptr : dialect_for(now, now);
  return other == nullptr || other == dialect_ ? "" : now;
}

Task<> Session::fail_start(std::string why) {
  std::string message = std::move(why);
  std::string output = collect_startup();
  const std::vector<std::string> opened = startup_watch_ ? startup_watch_->opened() : std::vector<std::string>{};
  if (!opened.empty()) {
    message += "; the last file it opened was " + printable(opened.back());
  }
  if (options_.startup != Startup::clean) {
    message += "; startup \"clean\" starts it without its user's files";
  }
  co_await abandon_start();
  throw Error(Fault::StartFailed, message).with("output", std::move(output));
}

void Session::note_startup_files() {
  startup_.sourced = startup_watch_->opened();
  for (const std::string& path : startup_watch_->unreadable()) {
    startup_.warnings.push_back(printable(path) + " cannot be read");
  }
  if (startup_watch_->is_blind()) {
    startup_.warnings.emplace_back("not all that the shell may read could be watched (inotify): sourced may lack some");
  }
  startup_watch_.reset();
}

bool Session::can_become_ready(Incarnation& in, TimePoint deadline) const {
  return !closed_ && !start_cancelled_ && !in.program().ended() && !in.replaced && Clock::now() < deadline;
}

std::string Session::why_not_ready(Incarnation& in) const {
  if (in.program().ended()) {
    const std::optional<ProgramExit>& exit = in.program().exit();
    return "the shell ended while it started" +
           (exit && exit->exit_code() ? ", with exit code " + std::to_string(*exit->exit_code()) : std::string());
  }
  const std::string other = other_shell();
  return !other.empty() ? "the shell was replaced by " + printable(other) + " while it started"
         : in.replaced  ? "the shell gave up its standard input, or was replaced by another program, while it started"
         : closed_      ? "the session was closed while it started"
         : start_cancelled_ ? "the start was cancelled"
                            : "the shell did not become ready in time (startupTimeoutMs)";
}

Task<> Session::source_startup_files(TimePoint deadline) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  std::uint64_t number = first_internal_number;
  for (const std::string& path : options_.startup_source) {
    const std::shared_ptr<Incarnation> mine = incarnation_;
    mine->driver()->run(++number, dialect_->source_command(path), {mine->tty_path(), std::nullopt});
    while (internal_done_ != number && can_become_ready(*mine, deadline)) {
      co_await waiter.until(deadline);
    }
    if (internal_done_ != number) {
      co_await fail_start("while it sourced " + printable(path) + ": " + why_not_ready(*mine));
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
  if (incarnation_ && incarnation_->driver() != nullptr) {
    text.feed(incarnation_->driver()->startup_noise());
  }
  text.feed(startup_.output);
  return text.finish().output;
}

}  // namespace rex::shell
