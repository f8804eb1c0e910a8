// Callers that wait for what they want of a command: each as a cursor, with wishes of its own, while it runs and after.
#include <algorithm>
#include <utility>

#include "shell/deadline.h"
#include "shell/session.h"
#include "shell/waiting_watch.h"

namespace rex::shell {
namespace {

// How long a program may be silent before what was typed into it counts as done, where nobody can tell: it also listens
// to others (ssh), or may not be looked into.
constexpr Milliseconds unmanaged_quiet{1000};

}  // namespace

/// What one caller waits for, besides the end of the job.
struct Session::Watch {
  Offset from;
  std::string typed;  // what the terminal or the program may give back first; empty once that is decided
  std::shared_ptr<const PatternSet> patterns;
  std::optional<Scanner> scanner;  // made once it is known where the output begins
  bool may_stop = false;           // only the call that started a job can stop it
  TimePoint deadline = never;
  std::optional<Milliseconds> quiet;
  bool on_input = true;         // return when the program waits for input
  bool nobody_reports = false;  // the end of what was typed: where the kernel cannot tell either, silence ends the call
  TimePoint since = Clock::now();  // silence is counted from here, or from the last output
};

/// Moves the beginning of a typed command's output behind an exact copy of what was typed.
void Session::skip_echo(Watch& watch) {
  if (watch.typed.empty()) {
    return;
  }
  std::string copy(watch.typed.size() + 2, '\0');
  copy.resize(journal_.read(watch.from, copy.data(), copy.size()));
  const std::size_t common = std::min(copy.size(), watch.typed.size());
  if (copy.compare(0, common, watch.typed, 0, common) != 0) {
    watch.typed.clear();
    return;
  }
  std::string_view rest = std::string_view(copy).substr(common);
  const std::size_t line_end = rest.starts_with("\r\n") ? 2 : rest.starts_with("\n") ? 1 : 0;
  if (common < watch.typed.size() || (line_end == 0 && rest.size() < 2)) {
    return;  // not all of it has come yet
  }
  watch.from += common + line_end;
  watch.typed.clear();
}

std::optional<Match> Session::scan(Scanner& scanner, Offset to) {
  std::optional<Match> match;
  journal_.visit(scanner.next(), to,
                 [&, at = std::max(scanner.next(), journal_.oldest())](std::string_view piece) mutable {
                   match = scanner.feed(piece, at);
                   at += piece.size();
                   return !match;
                 });
  return match ? match : scanner.settle();
}

/// Of a command that was typed into a program, what came of it ends where its answer did: the program goes on, and what
/// it writes then belongs to what is typed next. Of a job the journal has it all.
Task<RunResult> Session::follow(std::shared_ptr<Begun> begun, FollowOptions options, Cancel& cancel) {
  const std::shared_ptr<Session> self = shared_from_this();
  if (begun->answer) {
    RunResult again = *begun->answer;
    const Offset next = again.output.next;
    again.output = collect(std::min(begun->from, begun->to), begun->to, options.output);
    again.output.next = next;
    co_return again;
  }
  Watch watch{};
  watch.from = begun->from;
  watch.typed = begun->typed;
  watch.patterns = std::move(options.expect);
  watch.may_stop = !begun->is_typed;
  watch.deadline = deadline_after(options.wait);
  watch.quiet = options.quiet;
  watch.on_input = options.return_on_input;
  watch.nobody_reports = begun->is_typed && !watch.patterns && !options.wait && !options.quiet;
  watch.since = begun->is_typed ? begun->since : Clock::now();
  if (options.began && !begun->is_typed) {
    const std::optional<JobEnd>& end = begun->job->end;
    options.began(begun->from, end ? std::optional(end->to) : std::nullopt);
  }
  RunResult result = co_await outcome(begun->job, std::move(watch), options.output, cancel);
  const bool is_over = result.state != RunState::running || (!cancel && !options.wait && !options.quiet);
  if (begun->is_typed && is_over && !begun->answer) {
    begun->from = result.output.from;
    begun->to = result.expect ? result.expect->from : result.output.next;
    begun->answer = result;
    begun->typed.clear();
    begun->answer->output.output.clear();
  }
  co_return result;
}

Task<RunResult> Session::outcome(std::shared_ptr<Job> job, Watch watch, OutputOptions output, Cancel& cancel) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  waiter.subscribe(cancel.changed());
  bool stop_asked = false;
  Deadline deadline(watch.deadline);
  while (true) {
    skip_echo(watch);
    if (watch.patterns && watch.typed.empty()) {
      if (!watch.scanner) {
        watch.scanner.emplace(watch.patterns, watch.from);
      }
      if (std::optional<Match> match = scan(*watch.scanner, job->end ? job->end->to : journal_.end())) {
        RunResult result = result_of(*job, watch.from, match->from, output);
        result.state = RunState::matched;
        result.output.next = match->to;
        result.expect = std::move(match);
        co_return result;
      }
    }
    if (job->is_over()) {
      co_await settle_names(*job);
      co_return result_of(*job, watch.from, std::nullopt, output);
    }
    if (watch.may_stop && cancel.wish() == Cancel::Wish::stop_work && !std::exchange(stop_asked, true)) {
      spawn(executor_, stop_job(shared_from_this(), job, RunState::cancelled));
    }
    if (watch.on_input && !job->stopping && job == current_ && (reads_input() || foreground_stopped())) {
      co_return result_of(*job, watch.from, std::nullopt, output);
    }
    std::optional<Milliseconds> quiet = watch.quiet;
    const bool replaced = incarnation_ && incarnation_->replaced && watch.deadline == never;
    if ((watch.nobody_reports || replaced) && !job->stopping && !quiet && !can_tell_waiting()) {
      quiet = unmanaged_quiet;
    }
    const TimePoint now = Clock::now();
    const TimePoint silent = quiet ? std::max(watch.since, last_output_) + *quiet : never;
    const bool waiting_only = cancel && !stop_asked;
    if (!stop_asked && (waiting_only || deadline.has_passed() || now >= silent)) {
      RunResult result = result_of(*job, watch.from, std::nullopt, output);
      result.state =
          result.state == RunState::waiting_input ? RunState::running : result.state;  // it was not to return
      co_return result;
    }
    co_await waiter.until(stop_asked ? never : std::min(deadline.at(), silent));
  }
}

}  // namespace rex::shell
