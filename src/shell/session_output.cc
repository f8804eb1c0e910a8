// What comes from a session's program: the pumps that wait for it, and where it goes.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/time.h"
#include "shell/session.h"
#include "shell/waiting_watch.h"

namespace rex::shell {
namespace {

// One turn of a pump: after this much the loop looks at control messages, whatever floods the output.
constexpr std::size_t pump_bytes = 64 * 1024;

// How long a process may take from closing its descriptors to being reaped.
constexpr Milliseconds dying_time{50};

// At the end of a job: more than any terminal holds, so that only a background flood is cut here.
constexpr std::size_t final_drain_bytes = std::size_t{4} << 20;

// Of a journal's reserve: what is left for the end of a job that was interrupted.
constexpr std::size_t final_reserve = pump_bytes;

}  // namespace

// ---- pumps: each keeps the session and its incarnation alive until the descriptor it waits for is closed

Task<> Session::pump_output(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> from, Stream stream) {
  const std::function<void(std::string_view)> sink = [&](std::string_view bytes) {
    self->take_output(*from, stream, bytes);
  };
  bool open = true;
  while (open) {
    if (self->must_wait_for_readers(stream)) {
      co_await self->await_readers(stream);
    }
    AsyncFd* fd = from->output(stream);
    if (fd == nullptr || !co_await fd->readable()) {
      break;
    }
    open = from->drain(stream, pump_bytes, sink);
    self->changed_.notify();
  }
  if (self->incarnation_ == from) {
    (stream == Stream::out ? self->out_ended_ : self->err_ended_) = true;
    self->program_ended(*from);
    self->changed_.notify();
  }
}

Task<> Session::pump_reports(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> from) {
  while (co_await from->driver()->reports().readable()) {
    self->take_records(*from);
    self->changed_.notify();
  }
}

Task<> Session::pump_isolated(std::shared_ptr<Session> self, std::shared_ptr<Job> job) {
  while (job->isolated && co_await job->isolated->readable()) {
    if (!self->drain_isolated(*job)) {
      break;
    }
    self->changed_.notify();
  }
}

Task<> Session::watch_replaced(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> which) {
  if (!co_await which->driver()->abandoned()) {
    co_return;
  }
  // A shell that is dying has closed the pipe too, some time before its end is told.
  Waiter waiter(self->executor_);
  waiter.subscribe(which->program().exited());
  which->in_doubt = true;
  co_await waiter.until(Clock::now() + dying_time);
  which->in_doubt = false;
  if (!which->program().ended() && which->driver() != nullptr) {
    which->replaced = true;
    self->announce_state();
    self->changed_.notify();
  }
}

Task<> Session::watch_program(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> which) {
  Waiter waiter(self->executor_);
  waiter.subscribe(which->program().exited());
  waiter.subscribe(self->changed_);
  while (!which->program().ended() && !self->closed_) {
    co_await waiter.until(never);
  }
  if (self->incarnation_ == which) {
    self->program_ended(*which);
    self->changed_.notify();
  }
}

// ---- what the pumps bring

void Session::take_output(const Incarnation& from, Stream stream, std::string_view bytes) {
  if (&from != incarnation_.get()) {
    return;
  }
  if (waiting_watch_) {
    waiting_watch_->stir(Clock::now());
  }
  if (!ready_) {
    startup_.output.append(bytes.substr(0, max_startup_output - std::min(max_startup_output, startup_.output.size())));
    return;
  }
  if (current_ && current_->isolated && held_.size() + bytes.size() <= max_held_output) {
    held_.append(bytes);  // not the job's own: it goes into the journal behind the job
    return;
  }
  keep_output(stream, bytes, options_.tty);
}

void Session::keep_output(Stream stream, std::string_view bytes, bool from_terminal) {
  journal(stream).append(bytes);
  if (stream == Stream::out) {
    hear(bytes, from_terminal);
  }
  last_output_ = Clock::now();
  last_output_at_ = now_utc();
}

bool Session::must_wait_for_readers(Stream stream) {
  const Journal& of = journal(stream);
  // A shell whose job was interrupted has words of its own to write before it can tell of that.
  const std::size_t reserve = current_ && current_->interrupted ? final_reserve : journal_reserve;
  return options_.on_full == OnFull::block &&
         of.end() - consumed_[stream == Stream::err ? 1 : 0] + reserve > of.capacity();
}

Task<> Session::await_readers(Stream stream) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  while (must_wait_for_readers(stream) && !closed_) {
    co_await waiter.until(never);
  }
}

void Session::consumed(Stream stream, Offset upto) {
  Offset& place = consumed_[stream == Stream::err ? 1 : 0];
  if (options_.on_full == OnFull::block && upto > place) {
    place = upto;
    changed_.notify();
  }
}

void Session::drain_output(Incarnation& from) {
  // Of a program that is held up, no more than the journal has in reserve.
  const std::size_t most = options_.on_full == OnFull::block ? final_reserve : final_drain_bytes;
  from.drain(Stream::out, most, [&](std::string_view bytes) { take_output(from, Stream::out, bytes); });
  if (!options_.tty) {
    from.drain(Stream::err, most, [&](std::string_view bytes) { take_output(from, Stream::err, bytes); });
  }
}

bool Session::drain_isolated(Job& job) {
  return job.isolated && drain(job.isolated->fd(), final_drain_bytes, [&](std::string_view bytes) {
           if (!job.end) {  // what a background process adds later is nobody's output
             keep_output(Stream::out, bytes, false);
           }
         });
}

void Session::take_records(Incarnation& from) {
  for (const Record& record : from.driver()->take_records()) {
    if (record.number == 0 || record.number >= first_internal_number) {
      drain_output(from);
      internal_done_ = record.number == 0 ? first_internal_number : record.number;
      internal_status_ = record.status;
      cwd_ = true_cwd(from, record.cwd);
    } else if (&from == incarnation_.get() && current_ && current_->number == record.number) {
      drain_output(from);
      drain_isolated(*current_);
      end_job_by_record(from, record);
    }
  }
}

void Session::program_ended(Incarnation& which) {
  if (!which.program().ended()) {
    return;
  }
  const std::optional<ProgramExit>& exit = which.program().exit();
  if (which.driver() != nullptr) {
    take_records(which);
  }
  drain_output(which);
  if (options_.tty) {
    out_ended_ = true;  // we hold the terminal open ourselves, so it never says so
  }
  // On pipes the output may go on in a child that still holds them; the program itself is what the job was.
  if (!current_) {
    announce_exit(which);
    announce_state();
    return;
  }
  JobEnd end{};
  end.state = RunState::lost;
  if (exit) {
    end.state = dialect_ != nullptr ? RunState::shell_exited : exit->signal() ? RunState::signaled : RunState::exited;
    end.exit_code = exit->exit_code();
    end.signal = exit->signal();
  }
  end.cwd = cwd_;
  end_job(std::move(end));
  announce_exit(which);
}

}  // namespace rex::shell
