// Acting on what runs: typing, signals, and the schedule that ends a job for certain.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "shell/session.h"

namespace rex::shell {
namespace {

// A canonical terminal holds one line of at most this, newline included, and silently drops what is beyond.
constexpr std::size_t max_line_bytes = 4095;

// How long a write waits for room without any progress before it says how much was taken.
constexpr Milliseconds write_patience{1000};

/// The longest line of `data` where `begun` bytes of its first one were typed before; `begun` becomes those of the
/// last.
std::size_t longest_line(std::string_view data, std::size_t& begun) {
  std::size_t longest = 0;
  while (!data.empty()) {
    const std::size_t end = data.find_first_of("\r\n");
    longest = std::max(longest, begun + std::min(end, data.size()) + 1);
    begun = end == std::string_view::npos ? begun + data.size() : 0;
    data.remove_prefix(end == std::string_view::npos ? data.size() : end + 1);
  }
  return longest;
}

[[noreturn]] void refuse_closed(Executed executed) {
  throw Error(Fault::InputRefused, "the program does not read its input any more")
      .with("reason", std::string("closed"))
      .executed(executed);
}

// After how long the foreground is looked at again once it was signalled; doubles.
constexpr Milliseconds first_resend{5};

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

Task<std::size_t> Session::write(std::string data, bool submit, bool eof, Cancel& cancel) {
  const std::shared_ptr<Session> self = shared_from_this();
  co_await ensure_alive();
  const std::shared_ptr<Incarnation> in = incarnation_;
  if (in->input() == nullptr) {
    refuse_closed(Executed::no);
  }
  const std::optional<termios> modes = in->tty() ? terminal_modes(in->input()->fd()) : std::nullopt;
  const bool canonical = modes && (modes->c_lflag & ICANON) != 0;
  if (submit) {
    data += in->tty() ? '\r' : '\n';
  }
  std::size_t unfinished = canonical ? unfinished_line_ : 0;
  if (longest_line(data, unfinished) > max_line_bytes && canonical) {
    throw Error(Fault::InputRefused, "a line of more than " + std::to_string(max_line_bytes) +
                                         " bytes would be cut by the terminal; nothing was written")
        .with("reason", std::string("lineTooLong"));
  }
  if (eof && modes && !canonical) {
    throw Error(Fault::InputRefused, "the program reads keys, not lines: its terminal has no end of file")
        .with("reason", std::string("noEof"));
  }
  if (eof && canonical) {  // the first one only pushes an unfinished line
    data.append(unfinished != 0 ? 2 : 1, static_cast<char>(modes->c_cc[VEOF]));
    unfinished = 0;
  }
  unfinished_line_ = unfinished;
  const bool interrupts =
      modes && (modes->c_lflag & ISIG) != 0 && data.find(static_cast<char>(modes->c_cc[VINTR])) != std::string::npos;
  const std::uint64_t ticket = next_write_++;
  Waiter waiter(executor_);
  waiter.subscribe(turn_changed_);
  while (turn_ != ticket) {
    co_await waiter.until(never);
  }
  const std::size_t size = data.size();
  std::size_t done = 0;
  std::exception_ptr failure;
  try {
    done = co_await write_all_of(std::move(data), in, cancel);
  } catch (...) {
    failure = std::current_exception();
  }
  ++turn_;
  turn_changed_.notify();
  if (failure) {
    std::rethrow_exception(failure);
  }
  input_offset_ += done;
  if (interrupts && current_ && in->driver() != nullptr) {
    current_->interrupted = true;
    in->driver()->ask_again(current_->number);
  }
  if (eof && !in->tty() && done == size) {
    in->close_input();
  }
  co_return done;
}

Task<std::size_t> Session::write_all_of(std::string data, std::shared_ptr<Incarnation> in, Cancel& cancel) {
  const auto room = std::make_shared<Event>();
  Waiter waiter(executor_);
  waiter.subscribe(cancel.changed());
  waiter.subscribe(*room);
  std::size_t done = 0;
  TimePoint deadline = Clock::now() + write_patience;
  while (done < data.size() && !cancel && !closed_) {
    AsyncFd* const input = in->input();
    if (input == nullptr) {
      refuse_closed(done == 0 ? Executed::no : Executed::yes);
    }
    const ssize_t n = ::write(input->fd(), data.data() + done, data.size() - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
      deadline = Clock::now() + write_patience;
    } else if (errno == EAGAIN) {
      if (Clock::now() >= deadline) {
        break;
      }
      spawn(executor_, announce_room(in, room));
      co_await waiter.until(deadline);
    } else if (errno == EPIPE || errno == EIO) {
      refuse_closed(done == 0 ? Executed::no : Executed::yes);
    } else if (errno != EINTR) {
      throw os_error("cannot write to the session", errno);
    }
  }
  co_return done;
}

Task<> Session::announce_room(std::shared_ptr<Incarnation> in, std::shared_ptr<Event> room) {
  AsyncFd* const input = in->input();
  if (input != nullptr && co_await input->writable()) {
    room->notify();
  }
}

void Session::resize(WindowSize size) {
  if (!incarnation_ || incarnation_->program().ended()) {
    throw_ended();
  }
  incarnation_->resize(size);
  options_.rows = size.rows;
  options_.cols = size.cols;
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
    incarnation_->driver()->ask_again(current_->number);
  }
  return delivered;
}

/// Signals the foreground and waits up to `grace` for the job's end. A signal that meets a shell just forked for the
/// next command is lost in it; so whoever comes to the foreground meanwhile, or turns into another program, gets it
/// too.
Task<bool> Session::signal_until_end(std::shared_ptr<Job> job, int number, Milliseconds grace,
                                     std::shared_ptr<bool> delivered) {
  const TimePoint deadline = Clock::now() + grace;
  pid_t group = 0;
  std::string command;
  Milliseconds pause = first_resend;
  while (incarnation_ && !closed_) {
    const pid_t now = incarnation_->foreground();
    std::string now_command = command_of(now);
    if (now != group || now_command != command) {
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

Task<bool> Session::wait_for_end(std::shared_ptr<Job> job, TimePoint deadline) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  while (!job->end && !closed_ && Clock::now() < deadline) {
    co_await waiter.until(deadline);
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
