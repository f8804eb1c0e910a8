// Waiting for one of several conditions, and reading the journal.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "shell/deadline.h"
#include "shell/outside_watch.h"
#include "shell/session.h"

namespace rex::shell {
namespace {

/// Throws InvalidParams for an offset that has not been written, OffsetGone for one that is no longer held.
void require_held(Offset offset, const Journal& journal, std::string_view member) {
  if (offset > journal.end()) {
    throw invalid_params(
        member, std::to_string(offset) + " has not been written yet, the end is at " + std::to_string(journal.end()));
  }
  if (offset < journal.oldest()) {
    throw Error(Fault::OffsetGone, "offset " + std::to_string(offset) + " is no longer held; the oldest byte is at " +
                                       std::to_string(journal.oldest()))
        .with("oldest", static_cast<std::int64_t>(journal.oldest()))
        .with("next", static_cast<std::int64_t>(journal.end()));
  }
}

}  // namespace

Task<WaitResult> Session::wait(WaitOptions options, Cancel& cancel) {
  const std::shared_ptr<Session> self = shared_from_this();
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  waiter.subscribe(cancel.changed());
  while (starting_ && !closed_) {
    co_await waiter.until(never);
  }
  const std::shared_ptr<Job> job = find_job(options.job);
  const Offset from = options.from.value_or(job ? job->from : journal_.oldest());
  std::vector<std::optional<Scanner>> scanners(options.any.size());
  for (std::size_t i = 0; i < options.any.size(); ++i) {
    const Condition& condition = options.any[i];
    if (condition.kind == Condition::Kind::match) {
      const std::string member = "any[" + std::to_string(i) + "]";
      const Offset begin_at = condition.from.value_or(from);
      require_held(begin_at, journal_, condition.from ? member + ".from" : "from");
      scanners[i].emplace(PatternSet::one(condition.pattern, "any[" + std::to_string(i) + "].match"),
                          condition.from.value_or(from), condition.strip_ansi);
    } else if (condition.kind == Condition::Kind::exit && !job) {
      throw invalid_params("any[" + std::to_string(i) + "].exit", "no job has been run in this session");
    }
  }
  const TimePoint begin = Clock::now();
  Deadline deadline(deadline_after(options.wait));
  OutsideWatch outside(executor_, shared_.workers, options.any, directory());
  outside.subscribe(waiter);
  const auto tree_of_all = [this] { return tree(); };
  WaitResult result{std::nullopt, std::nullopt, 0};
  std::optional<Match> match;
  while (true) {
    const TimePoint now = Clock::now();
    const bool has_passed = deadline.has_passed();
    TimePoint next_look = outside.not_before(deadline.at());
    for (std::size_t i = 0; i < options.any.size() && !result.met; ++i) {
      const Condition& condition = options.any[i];
      bool met = false;
      switch (condition.kind) {
        case Condition::Kind::exit: met = job->is_over(); break;
        case Condition::Kind::input: met = reads_input(); break;
        case Condition::Kind::listening:
        case Condition::Kind::file: met = outside.holds(i, condition, tree_of_all); break;
        case Condition::Kind::bytes: met = journal_.end() >= condition.bytes; break;
        case Condition::Kind::match: met = (match = scan(*scanners[i], journal_.end())).has_value(); break;
        case Condition::Kind::quiet: {
          const TimePoint silent = std::max(last_output_, job ? job->started : begin) + condition.quiet;
          met = now >= silent;
          next_look = std::min(next_look, silent);
          break;
        }
      }
      if (met) {
        result.met = i;
      }
    }
    if (result.met || cancel || ended_for_good() || (has_passed && now >= outside.not_before(deadline.at()))) {
      break;
    }
    outside.looked();
    co_await waiter.until(std::min(next_look, outside.next_look()));
  }
  result.next = journal_.end();
  if (job) {
    result.result = result_of(*job, from, match ? std::optional(match->from) : std::nullopt, options.output);
    result.next = std::max(result.result->output.next, from);
    if (match) {
      result.result->state = RunState::matched;
      result.result->output.next = match->to;
      result.next = match->to;
      match->index = *result.met;
      result.result->expect = std::move(match);
    }
  } else if (match) {
    result.next = match->to;
  }
  co_return result;
}

Offset Session::place_in(Stream stream, std::optional<Offset> offset) {
  if (stream == Stream::err && !err_journal_) {
    throw invalid_params("stream", "a session with a terminal has one stream, stdout");
  }
  const Offset place = offset.value_or(journal(stream).end());
  require_held(place, journal(stream), "offset");
  return place;
}

bool Session::is_over(Stream stream) const {
  return closed_ ? !incarnation_ : (stream == Stream::err ? err_ended_ : out_ended_) && ended_for_good();
}

Task<ReadResult> Session::read(ReadOptions options, Cancel& cancel) {
  const std::shared_ptr<Session> self = shared_from_this();
  Journal& from = options.stream == Stream::err && err_journal_ ? *err_journal_ : journal_;
  const Offset offset = place_in(options.stream, options.offset.value_or(from.oldest()));
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  waiter.subscribe(cancel.changed());
  const TimePoint deadline = options.wait ? deadline_after(options.wait) : Clock::now();
  while (offset == from.end() && !closed_ && !is_over(options.stream) && !cancel && Clock::now() < deadline) {
    co_await waiter.until(deadline);
  }
  require_held(offset, from, "offset");
  ReadResult result{};
  result.data.resize(std::min<Offset>(options.max_bytes, from.end() - offset));
  result.data.resize(from.read(offset, result.data.data(), result.data.size()));
  result.from = offset;
  result.next = offset + result.data.size();
  consumed(options.stream, result.next);
  result.oldest = from.oldest();
  result.end = from.end();
  result.eof = result.next == result.end && (closed_ || is_over(options.stream));
  result.state = state();
  co_return result;
}

}  // namespace rex::shell
