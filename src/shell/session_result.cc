// What is told of a job: its output out of the journal, and the facts beside it.
#include <algorithm>
#include <utility>

#include "shell/session.h"

namespace rex::shell {
namespace {

// What a forked shell may need to become the program it was forked for: of a processor, and, where others have that, of
// time.
constexpr Milliseconds exec_run_time{20};
constexpr Milliseconds exec_time{1000};

/// Whether a forked shell may yet call exec: one that waits for something, or has run on, is what it will be.
bool may_call_exec(pid_t pid) { return is_running(pid) && run_time(pid).value_or(exec_run_time) < exec_run_time; }

}  // namespace

/// A background process has its shell's name until it has called exec; give it the moment that takes.
Task<> Session::settle_names(Job& job) {
  if (!job.end || job.end->survivors.empty() || !incarnation_ || std::exchange(job.names_settled, true)) {
    co_return;
  }
  const std::string own = command_of(incarnation_->program().pid());
  const auto is_named_so = [&own](const Process& process) { return process.command == own; };
  const auto may_change = [&own](const Process& process) {
    return process.command == own && may_call_exec(process.pid);
  };
  Waiter pause(executor_);
  const TimePoint deadline = Clock::now() + exec_time;
  int settled = 0;  // looks in a row: a shell just forked may wait a moment for its parent
  for (Milliseconds wait{2}; settled < 2 && Clock::now() < deadline; wait = std::min(wait * 2, Milliseconds(32))) {
    const std::vector<Process>& all = job.end->survivors;
    if (std::none_of(all.begin(), all.end(), is_named_so)) {
      break;
    }
    settled = std::none_of(all.begin(), all.end(), may_change) ? settled + 1 : 0;
    co_await pause.until(std::min(deadline, Clock::now() + wait));
    for (Process& process : job.end->survivors) {
      const std::string now = command_of(process.pid);
      process.command = now.empty() ? process.command : now;
    }
  }
}

CollectedOutput Session::collect(Offset from, Offset to, OutputOptions output) {
  Offset begin = from;
  if (from < journal_.oldest()) {  // the journal lost the beginning: only the end can be shown, and the loss is said
    begin = std::min(to, std::max(journal_.oldest(), to - std::min<Offset>(to, output.max_bytes / 2)));
  }
  OutputText text(output.view, output.max_bytes, begin);
  journal_.visit(begin, to, [&text](std::string_view piece) {
    text.feed(piece);
    return true;
  });
  CollectedOutput collected = text.finish();
  if (begin != from) {
    collected.omitted = Omitted{begin - from, from, begin, 0};
    collected.from = from;
    collected.total_bytes = to - from;
  }
  return collected;
}

RunResult Session::result_of(const Job& job, Offset from, std::optional<Offset> to, OutputOptions output) {
  RunResult result;
  result.session = name();
  result.job = job.id();
  result.restarted = job.restarted;
  result.interleaved = job.interleaved;
  if (job.end) {
    const JobEnd& end = *job.end;
    result.state = end.state;
    result.exit_code = end.exit_code;
    result.signal = end.signal;
    result.pipe_status = end.pipe_status;
    result.cwd = end.cwd;
    result.duration_ms = end.duration_ms;
    result.syntax_error = end.syntax_error;
    result.survivors = end.survivors;
    result.warnings = end.warnings;
  } else {
    const bool runs = &job == current_.get() && !job.stopping;
    result.state = job.beyond_reach               ? job.stopping.value_or(RunState::running)
                   : runs && reads_input()        ? RunState::waiting_input
                   : runs && foreground_stopped() ? RunState::stopped
                                                  : RunState::running;
    result.waiting = runs ? waiting() : std::nullopt;
    if (job.beyond_reach && incarnation_) {
      result.survivors = name_processes(left_by(job, *incarnation_));
    }
    const std::optional<std::string> cwd = incarnation_ ? incarnation_->kernel_cwd() : std::nullopt;
    result.cwd = cwd.value_or(cwd_);
    result.duration_ms = milliseconds_since(job.started);
  }
  const bool managed = dialect_ != nullptr && !(incarnation_ && incarnation_->replaced);
  const bool reaped = job.end && (job.end->signal || job.end->exit_code);
  result.completion = managed || reaped ? Completion::exact : Completion::heuristic;
  const Offset upto = to.value_or(job.end ? job.end->to : journal_.end());
  result.output = collect(std::min(from, upto), upto, output);
  return result;
}

}  // namespace rex::shell
