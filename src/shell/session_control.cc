// Acting on what runs: signals, and the schedule that ends a job for certain.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/secret.h"
#include "shell/deadline.h"
#include "shell/session.h"
#include "shell/waiting_watch.h"

namespace rex::shell {
namespace {

// After how long the foreground is looked at again once it was signalled; doubles.
constexpr Milliseconds first_resend{5};

// How long a shell may take for a report before it is signalled all the same: a trap of its user's may run there.
constexpr Milliseconds report_time{100};

// When a running shell is looked at whether it still answers.
constexpr Milliseconds first_look{250};
constexpr Milliseconds slowest_look{2000};
constexpr int patience_looks = 4;

struct Step {
  const char* name;
  int signal;
};

constexpr Step stop_steps[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"KILL", SIGKILL}};

}  // namespace

/// How many bytes there were to write, if all of them were taken by an earlier try: then it does not matter how its
/// program has fared since. A pipe that is still open may yet have to be closed.
std::optional<std::size_t> Session::written_before(const Typing& typing) const {
  const std::size_t end = typing.submit + (typing.eof && options_.tty ? 1 : 0);
  const bool may_close = typing.eof && !options_.tty && incarnation_ && incarnation_->input() != nullptr;
  if (!typing.offset || may_close) {
    return std::nullopt;
  }
  const std::size_t size = typing.data.size() + end + (typing.keys.empty() ? 0 : bytes_of_keys(typing.keys).size());
  const bool is_in = input_.offset() >= *typing.offset + static_cast<std::int64_t>(size);
  return is_in && size != 0 ? std::optional(size) : std::nullopt;
}

Task<std::size_t> Session::write(Typing typing, Cancel& cancel) {
  const std::shared_ptr<Session> self = shared_from_this();
  if (const std::optional<std::size_t> before = written_before(typing)) {
    wipe(typing.data);
    co_return *before;
  }
  co_await ensure_alive();
  const std::shared_ptr<Incarnation> in = incarnation_;
  const Wiper wiper(typing.secret ? &typing.data : nullptr);
  if (typing.secret) {
    co_await await_secret_prompt(in);
  }
  if (!typing.keys.empty()) {
    if (typing.secret) {  // it would be copied
      throw invalid_params("keys", "a secret is typed as `data`");
    }
    typing.data += bytes_of_keys(typing.keys);
  }
  const Typed typed = co_await input_.write(in, std::move(typing), cancel);
  if (waiting_watch_) {  // whatever it waited for, it has got
    waiting_watch_->stir(Clock::now());
  }
  if (typed.interrupts && current_ && in->driver() != nullptr) {
    current_->interrupted = true;
    in->driver()->interrupted(current_->number);
  }
  co_return typed.accepted;
}

void Session::resize(WindowSize size) {
  if (!incarnation_ || incarnation_->program().ended()) {
    throw_ended();
  }
  incarnation_->resize(size);
  options_.rows = size.rows;
  options_.cols = size.cols;
  terminal_.resize(size);
}

/// True when somebody got it.
bool Session::signal_foreground(int number) {
  if (incarnation_->program().ended()) {
    return false;
  }
  const pid_t group = incarnation_->foreground();  // the kernel's word for our own terminal
  bool delivered = kill(-group, number) == 0;
  if (!delivered && errno == EPERM && number == SIGINT && incarnation_->tty() && incarnation_->input() != nullptr) {
    // Another user's program (sudo): the terminal itself may still interrupt it.
    const int terminal = incarnation_->input()->fd();
    const std::optional<termios> modes = terminal_modes(terminal);
    delivered = modes && (modes->c_lflag & ISIG) != 0 && ::write(terminal, &modes->c_cc[VINTR], 1) == 1;
  }
  if (delivered && number != SIGKILL) {
    kill(-group, SIGCONT);  // a stopped process would not see it
  }
  if (number == SIGINT && incarnation_->driver() != nullptr && current_) {
    current_->interrupted = true;
    incarnation_->driver()->interrupted(current_->number);
    changed_.notify();  // a full journal that holds its program up has a reserve for this
  }
  return delivered;
}

/// Signals the foreground and waits up to `grace` for the job's end. A signal that meets a shell just forked for the
/// next command is lost in it; so whoever comes to the foreground meanwhile, or turns into another program, gets it
/// too.
Task<bool> Session::signal_until_end(std::shared_ptr<Job> job, int number, Milliseconds grace,
                                     std::shared_ptr<bool> delivered) {
  const TimePoint deadline = Clock::now() + grace;
  TimePoint report_deadline = Clock::now() + report_time;
  bool back = false;
  pid_t group = 0;
  std::string command;
  Milliseconds pause = first_resend;
  while (incarnation_ && !closed_) {
    const pid_t now = incarnation_->foreground();
    std::string now_command = command_of(now);
    // A shell that is back behind what was killed is about to report, or to go on with its text: it has its grace.
    // One that is reporting has come to the end by itself; an interrupt would leave half a report in its output buffer,
    // for the terminal (test_scenarios_a.py, A20, on a loaded machine), or be told as how the command ended (E1).
    const bool was_back = std::exchange(back, group != 0 && now != group && now == incarnation_->program().pid());
    if (back && !was_back) {
      report_deadline = Clock::now() + report_time;
      pause = first_resend;
    }
    const bool spared =
        (number == SIGKILL && back) || (Clock::now() < report_deadline && (back || incarnation_->between_commands()));
    if (!spared && (now != group || now_command != command)) {
      group = now;
      command = std::move(now_command);
      *delivered = signal_foreground(number) || *delivered;
    }
    const TimePoint next = std::min(deadline, Clock::now() + pause);
    pause *= 2;
    if (co_await wait_for_end(job, next)) {
      co_return true;
    }
    if (Clock::now() >= deadline) {
      break;
    }
  }
  if (number == SIGKILL && !job->end && incarnation_ && !closed_) {
    // A shell whose child was killed may be slow to say so (test_scenarios_e.py, E1, on a loaded machine).
    if (group != incarnation_->program().pid() && co_await wait_for_end(job, Clock::now() + default_grace)) {
      co_return true;
    }
    // The shell itself goes on, and will for ever: a loop that ignores all else.
    signal_descendant(incarnation_->program().pid(), SIGKILL);
    co_return co_await wait_for_end(job, Clock::now() + grace);
  }
  co_return job->end.has_value();
}

/// Looks now and then whether the shell has come back to its lines without a report: an interrupt that we did not send
/// (`kill -INT $$`), or a shell that was made unable to report (`set -n`, `set -r`, no descriptor left). It is asked
/// again; one that stays silent is of no use and is ended, which is then the truth about the job.
/// One task serves jobs that follow each other quickly; it ends when it finds none.
Task<> Session::watch_lines(std::shared_ptr<Session> self) {
  Waiter timer(self->executor_);
  timer.subscribe(self->closing_);
  Milliseconds pause = first_look;
  std::uint64_t watched = 0;
  int asked = 0;
  while (true) {
    co_await timer.until(Clock::now() + pause);
    const std::shared_ptr<Job> job = self->current_;
    const std::shared_ptr<Incarnation> in = self->incarnation_;
    if (!job || self->closed_ || !in || in->program().ended()) {
      break;
    }
    if (std::exchange(watched, job->number) != job->number || !in->at_its_lines()) {
      pause = asked == 0 ? std::min(pause * 2, slowest_look) : first_look;
      asked = 0;
    } else if (asked++ < patience_looks) {
      in->driver()->ask_again(job->number);
      pause = first_look;
    } else {
      signal_descendant(in->program().pid(), SIGKILL);
    }
  }
  self->watching_lines_ = false;
}

std::vector<pid_t> Session::signal(int number, const std::optional<std::string>& job) {
  if (!incarnation_ || incarnation_->program().ended()) {
    throw_ended();
  }
  if (job && (!current_ || current_->id() != *job)) {
    [[maybe_unused]] const std::shared_ptr<Job> known = find_job(job);  // throws for a job that never was
    throw invalid_params("job", "job " + printable(*job) + " has ended");
  }
  const pid_t program = incarnation_->program().pid();
  std::vector<pid_t> targets{program};
  if (current_) {
    targets = group_members(incarnation_->program().guardian(), incarnation_->foreground());
  }
  std::erase_if(targets, [number](pid_t pid) { return !signal_descendant(pid, number); });
  return targets;
}

Task<bool> Session::wait_for_end(std::shared_ptr<Job> job, TimePoint at) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  Deadline deadline(at);
  while (!job->end && !closed_ && !deadline.has_passed()) {
    co_await waiter.until(deadline.at());
  }
  co_return job->end.has_value();
}

Task<InterruptResult> Session::interrupt(bool escalate, Milliseconds grace, OutputOptions output) {
  const std::shared_ptr<Session> self = shared_from_this();
  InterruptResult result{};
  const std::shared_ptr<Job> job = current_;
  if (job && incarnation_) {
    for (const Step& step : stop_steps) {
      if (!incarnation_) {
        break;
      }
      const auto delivered = std::make_shared<bool>(false);
      const bool ended = co_await signal_until_end(job, step.signal, grace, delivered);
      if (*delivered) {
        result.step = step.name;
      }
      if (ended || !escalate) {
        break;
      }
    }
    result.result = result_of(*job, job->from, std::nullopt, output);
  }
  result.state = state();
  co_return result;
}

Task<> Session::enforce_lifetime(std::shared_ptr<Session> self, std::shared_ptr<Job> job, TimePoint deadline) {
  if (!co_await self->wait_for_end(job, deadline) && !self->closed_) {
    co_await stop_job(self, job, RunState::timed_out);
  }
}

std::vector<pid_t> without(std::vector<pid_t> all, const std::vector<pid_t>& some) {
  std::erase_if(all, [&some](pid_t pid) { return std::find(some.begin(), some.end(), pid) != some.end(); });
  return all;
}

/// What a job has started and not ended: not the processes of earlier jobs, nor what those start meanwhile.
std::vector<pid_t> Session::left_by(const Job& job, Incarnation& in) {
  std::vector<pid_t> left = without(in.others(), job.before);
  for (const pid_t earlier : job.before) {
    left = without(std::move(left), descendants(earlier));
  }
  return left;
}

Task<> Session::stop_job(std::shared_ptr<Session> self, std::shared_ptr<Job> job, RunState reason) {
  if (job->end || job->stopping || !self->incarnation_) {
    co_return;  // whoever came first decides the one final state
  }
  const std::shared_ptr<Incarnation> in = self->incarnation_;
  job->stopping = reason;
  job->being_stopped = true;
  self->stopping_ = job;
  const auto delivered = std::make_shared<bool>(false);
  for (const Step& step : stop_steps) {
    if (!job->end && !self->closed_) {
      co_await self->signal_until_end(job, step.signal, default_grace, delivered);
    }
  }
  if (!self->closed_) {
    co_await self->stop_leftovers(job, in);
  }
  job->beyond_reach = !job->end;
  job->being_stopped = false;
  self->stopping_.reset();
  self->changed_.notify();
}

/// What the job started beside the foreground dies with it.
Task<> Session::stop_leftovers(std::shared_ptr<Job> job, std::shared_ptr<Incarnation> in) {
  Waiter pause(executor_);
  std::vector<pid_t> left = left_by(*job, *in);
  for (const Step& step : {stop_steps[1], stop_steps[2]}) {
    for (const pid_t pid : left) {
      signal_descendant(pid, step.signal);
      signal_descendant(pid, SIGCONT);
    }
    const TimePoint until = Clock::now() + default_grace;
    while (std::any_of(left.begin(), left.end(), is_alive) && Clock::now() < until && !closed_) {
      co_await pause.until(Clock::now() + Milliseconds(10));
    }
    left = left_by(*job, *in);
  }
  if (job->end) {
    job->end->survivors = name_processes(left);
  }
}

}  // namespace rex::shell
