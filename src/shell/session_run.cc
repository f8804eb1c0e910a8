// Jobs: how they begin and end.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "shell/session.h"
#include "shell/waiting_watch.h"

namespace rex::shell {
namespace {

// What a shell may need to come back to its lines, before the next command is given to it anyway.
constexpr Milliseconds comeback_time{1000};

// How far back in a job's output the shell's complaint about its text is looked for.
constexpr Offset syntax_complaint_bytes = 16 * 1024;

bool same_directory(const std::string& a, const std::string& b) {
  struct stat left{};
  struct stat right{};
  return stat(a.c_str(), &left) == 0 && stat(b.c_str(), &right) == 0 && left.st_dev == right.st_dev &&
         left.st_ino == right.st_ino;
}

void refuse_nul(const std::string& command) {
  const std::size_t at = command.find('\0');
  if (at != std::string::npos) {
    throw Error(Fault::InputRefused, "the command holds a NUL byte at offset " + std::to_string(at) +
                                         ", which no shell takes; nothing was run")
        .with("reason", std::string("nul"))
        .with("at", static_cast<std::int64_t>(at));
  }
}

}  // namespace

// ---- the life of a job

std::shared_ptr<Job> Session::begin_job(std::string_view command) {
  auto job = std::make_shared<Job>();
  job->number = next_job_++;
  job->lines = 1 + std::count(command.begin(), command.end(), '\n');
  job->from = journal_.end();
  job->started = Clock::now();
  if (!alone_) {  // nobody can have come while an idle shell was alone
    job->before = incarnation_->others();
    std::vector<pid_t> writers = job->before;
    std::erase_if(writers, [this](pid_t pid) { return !writes_to(pid, incarnation_->tty_path()); });
    job->interleaved = name_processes(writers);
  }
  job->restarted = std::exchange(restarted_, std::nullopt);
  jobs_[job->number] = job;
  if (jobs_.size() > max_kept_jobs) {
    jobs_.erase(jobs_.begin());
  }
  current_ = job;
  if (waiting_watch_) {
    waiting_watch_->command_began();
  }
  announce({.kind = SessionEvent::Kind::job_started, .job = job->id()});
  announce_state();
  return job;
}

void Session::end_job(JobEnd end) {
  const std::shared_ptr<Job> job = std::exchange(current_, nullptr);
  if (waiting_watch_) {
    waiting_watch_->command_ended();
  }
  end.to = journal_.end();
  end.duration_ms = milliseconds_since(job->started);
  if (job->stopping) {
    end.state = *job->stopping;
  }
  if (incarnation_) {
    const std::vector<pid_t> now = incarnation_->others();
    alone_ = now.empty() && dialect_ != nullptr && !incarnation_->replaced && !job->interrupted;
    const std::vector<pid_t> left_behind = now.empty() ? now : left_by(*job, *incarnation_);
    end.survivors = name_processes(left_behind);
    if ((!now.empty() || job->interrupted) && incarnation_->driver() != nullptr) {
      incarnation_->driver()->take_care();
    }
    constexpr int stopped_from = 128 + SIGCHLD;  // 128 + STOP, TSTP, TTIN, TTOU
    const bool may_be_stopped = end.exit_code && (dialect_ == nullptr || dialect_->status_tells_stopped()
                                                      ? *end.exit_code > stopped_from && *end.exit_code <= 128 + SIGTTOU
                                                      : *end.exit_code == 0 || *end.exit_code == job->status_before);
    if (end.state == RunState::exited && may_be_stopped &&
        std::any_of(left_behind.begin(), left_behind.end(), is_stopped)) {
      end.state = RunState::stopped;
    }
  }
  job->isolated_writer.reset();
  job->end = std::move(end);
  if (!held_.empty()) {
    keep_output(Stream::out, std::exchange(held_, {}), true);
  }
  if (dialect_ != nullptr) {
    job->end->warnings = restore_terminal();
  }
  announce({.kind = SessionEvent::Kind::job_ended,
            .job = job->id(),
            .run_state = job->end->state,
            .exit_code = job->end->exit_code,
            .signal = job->end->signal});
  announce_state();
  changed_.notify();
}

void Session::end_job_by_record(Incarnation& in, const Record& record) {
  JobEnd end{};
  end.state = RunState::exited;
  end.exit_code = record.status;
  end.pipe_status = record.pipe_status;
  if (std::find(end.pipe_status.begin(), end.pipe_status.end(), record.status) == end.pipe_status.end()) {
    end.pipe_status = {record.status};  // interrupted, or ended by `return`: the list is of something earlier
  }
  move_to(true_cwd(in, record.cwd));
  end.cwd = cwd_;
  if (record.status != 0) {
    const Offset to = journal_.end();
    const Offset from = std::max(current_->from, to - std::min(to, syntax_complaint_bytes));
    std::string tail(to - from, '\0');
    tail.resize(journal_.read(from, tail.data(), tail.size()));
    if (const std::optional<SyntaxError> found = in.driver()->syntax_error(tail, record.status)) {
      // A text that ends too early is blamed on the line behind its last one.
      end.syntax_error =
          SyntaxFault{found->line, found->text, !found->whole && std::min(found->line, current_->lines) > 1};
    }
  }
  end_job(std::move(end));
}

std::string Session::true_cwd(const Incarnation& in, std::string_view claimed) const {
  constexpr std::string_view deleted = " (deleted)";
  std::string path = in.kernel_cwd().value_or(std::string(claimed));
  if (path == claimed) {
    return path;
  }
  if (path.ends_with(deleted)) {
    return path.substr(0, path.size() - deleted.size());
  }
  // The shell's own name for the place, through symbolic links, is what a person would see, if it is that place.
  const std::string logical(claimed);
  return same_directory(logical, path) ? logical : path;
}

std::shared_ptr<Job> Session::find_job(const std::optional<std::string>& id) {
  if (!id) {
    return jobs_.empty() ? nullptr : jobs_.rbegin()->second;
  }
  for (const auto& [number, job] : jobs_) {
    if (job->id() == *id) {
      return job;
    }
  }
  throw invalid_params("job", "session " + printable(name()) + " has no job " + printable(*id) + " (the last " +
                                  std::to_string(max_kept_jobs) + " are kept)");
}

// ---- run

Task<std::shared_ptr<Begun>> Session::begin(RunOptions options, Cancel& cancel) {
  const std::shared_ptr<Session> self = shared_from_this();
  refuse_nul(options.command);
  co_await await_shell();
  co_await ensure_alive();  // last: a job must not begin in a shell whose end has been told already
  const bool unmanaged = dialect_ == nullptr || incarnation_->replaced;
  if (unmanaged || (options.interactive && current_)) {
    co_return co_await type_command(std::move(options), cancel);
  }
  if (const std::shared_ptr<Job> busy = current_ ? current_ : stopping_) {
    throw Error(
        Fault::SessionBusy,
        "job " + busy->id() + " is still running: wait for it, interrupt it, or type to it " + "with interactive")
        .with("job", busy->id())
        .retryable();
  }
  co_return run_command(options);
}

/// After two kinds of jobs the shell gets the time to come back to its lines, or to die, before it is told more:
/// - bash 5.2 corrupts its memory over a text with an unclosed `$(` and mostly dies a moment after it has reported it
///   (valgrind shows writes before its line buffer): the next command must not be lost with it
///   (test_faults_sessions.py, S10);
/// - an interrupt may reach the shell itself just behind its report; what it prints then (dash: a line feed) is not the
///   next command's (test_swerex_table.py, row 49, on a loaded machine).
Task<> Session::await_shell() {
  const std::shared_ptr<Job> last = jobs_.empty() ? nullptr : jobs_.rbegin()->second;
  if (!last || !last->end || (!last->end->syntax_error && !last->interrupted)) {
    co_return;
  }
  Waiter pause(executor_);
  const TimePoint deadline = Clock::now() + comeback_time;
  while (!closed_ && incarnation_ && !incarnation_->program().ended() && !incarnation_->replaced &&
         !incarnation_->at_its_lines() && Clock::now() < deadline) {
    co_await pause.until(Clock::now() + Milliseconds(1));
  }
  if (closed_ || !incarnation_) {
    throw_ended();
  }
}

std::shared_ptr<Begun> Session::run_command(const RunOptions& options) {
  const std::shared_ptr<Incarnation> in = incarnation_;
  if (!alone_) {
    drain_output(*in);  // what earlier jobs' processes wrote meanwhile is not this job's
  }
  Redirections to{options.stdin_empty || options.isolate ? "/dev/null" : in->tty_path(), std::nullopt};
  Pipe own;
  if (options.isolate) {
    own = make_pipe();
    to.output = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(own.write.get());
  }
  const std::shared_ptr<Job> job = begin_job(options.command);
  job->status_before = in->driver()->last_status();
  try {
    in->driver()->run(job->number, options.command, to);
  } catch (...) {
    current_.reset();
    jobs_.erase(job->number);
    if (waiting_watch_) {
      waiting_watch_->command_ended();
    }
    throw;
  }
  if (options.isolate) {
    job->isolated = std::make_unique<AsyncFd>(executor_, std::move(own.read));
    job->isolated_writer = std::move(own.write);
    spawn(executor_, pump_isolated(shared_from_this(), job));
  }
  if (!std::exchange(watching_lines_, true)) {
    spawn(executor_, watch_lines(shared_from_this()));
  }
  if (options.timeout) {
    spawn(executor_, enforce_lifetime(shared_from_this(), job, deadline_after(options.timeout)));
  }
  auto begun = std::make_shared<Begun>();
  begun->session = weak_from_this();
  begun->job = job;
  begun->from = job->from;
  return begun;
}

Task<std::shared_ptr<Begun>> Session::type_command(RunOptions options, Cancel& cancel) {
  if (!current_) {  // the program has ended between two looks
    throw_ended();
  }
  drain_output(*incarnation_);
  auto begun = std::make_shared<Begun>();
  begun->session = weak_from_this();
  begun->job = current_;
  begun->from = journal_.end();
  begun->is_typed = true;
  const std::optional<termios> modes = incarnation_->tty() ? terminal_modes(incarnation_->input()->fd()) : std::nullopt;
  const bool asks_secret = modes && (modes->c_lflag & ICANON) != 0 && (modes->c_lflag & ECHO) == 0;
  if (modes && !asks_secret) {
    begun->typed = options.command;
  }
  Typing typing{std::move(options.command), true, false};
  if (co_await write(std::move(typing), cancel) == 0) {  // not even its Enter
    if (cancel) {
      throw Error(Fault::RequestCancelled, "cancelled; nothing was typed");
    }
    throw Error(Fault::InputRefused, "the program reads nothing and its terminal is full; nothing was typed")
        .with("reason", std::string("full"))
        .retryable();
  }
  begun->since = Clock::now();
  co_return begun;
}

}  // namespace rex::shell
