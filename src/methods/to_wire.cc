#include "methods/to_wire.h"
#include "methods/logout.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "base/time.h"

namespace rex::methods {

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? name : std::to_string(number);
}

namespace {

constexpr std::size_t many_bytes = 1u << 20;  // of fewer, no escapes outgrow a message

}  // namespace

bool travels_as_text(std::string_view bytes) {
  const auto doubled = [](char c) { return c == '\n' || c == '\t' || c == '\r' || c == '"' || c == '\\'; };
  const auto escaped = [&](char c) { return c >= 0 && c < 0x20 && !doubled(c); };
  const auto controls = static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), escaped));
  if (bytes.size() > many_bytes) {
    const auto pairs = static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), doubled));
    return 5 * controls + pairs <= bytes.size() / 3 && is_utf8(bytes);
  }
  return controls <= bytes.size() / 8 && is_utf8(bytes);
}

int signal_number(wire::Signal signal) {
  const std::string_view wanted = wire::name_of(signal);
  for (int number = 1; number < NSIG; ++number) {
    const char* name = sigabbrev_np(number);
    if (name != nullptr && wanted == name) {
      return number;
    }
  }
  return 0;
}

std::vector<wire::Process> to_wire(const std::vector<shell::Process>& processes) {
  std::vector<wire::Process> all;
  for (const shell::Process& process : processes) {
    all.push_back({process.pid, process.command});
  }
  return all;
}

std::optional<wire::Omitted> to_wire(const std::optional<shell::Omitted>& omitted) {
  if (!omitted) {
    return std::nullopt;
  }
  return wire::Omitted{static_cast<std::int64_t>(omitted->bytes), static_cast<std::int64_t>(omitted->from),
                       static_cast<std::int64_t>(omitted->to), static_cast<std::int64_t>(omitted->at)};
}

wire::SessionState to_wire(shell::SessionState state) {
  switch (state) {
    case shell::SessionState::ready: return wire::SessionState::ready;
    case shell::SessionState::running: return wire::SessionState::running;
    case shell::SessionState::waiting_input: return wire::SessionState::waitingInput;
    case shell::SessionState::stopped: return wire::SessionState::stopped;
    case shell::SessionState::unmanaged: return wire::SessionState::unmanaged;
    case shell::SessionState::exited: return wire::SessionState::exited;
  }
  return wire::SessionState::lost;
}

shell::ResourceLimits limits_of(const wire::ResourceLimits& limits) {
  return {limits.cpuMs, limits.memoryBytes, limits.processes, limits.openFiles};
}

namespace {

wire::LimitsInForce to_wire(const shell::ResourceLimits& limits, const shell::TreeLimits& counted) {
  const auto means = [](bool limited, bool by_cgroup) {
    const wire::LimitMeans how = by_cgroup ? wire::LimitMeans::cgroup : wire::LimitMeans::rlimit;
    return limited ? std::optional(how) : std::nullopt;
  };
  const wire::LimitsBy by{
      means(limits.cpu_ms.has_value(), false), means(limits.memory_bytes.has_value(), counted.memory_bytes.has_value()),
      means(limits.processes.has_value(), counted.processes.has_value()), means(limits.open_files.has_value(), false)};
  return {limits.cpu_ms, limits.memory_bytes, limits.processes, limits.open_files, by};
}

}  // namespace

std::optional<wire::Waiting> to_wire(const std::optional<shell::Waiting>& waiting) {
  if (!waiting) {
    return std::nullopt;
  }
  return wire::Waiting{static_cast<wire::WaitingKind>(waiting->kind),
                       static_cast<wire::WaitingHow>(waiting->how),
                       static_cast<wire::Evidence>(waiting->evidence),
                       waiting->pid,
                       waiting->command,
                       waiting->text};
}

wire::SessionInfo to_wire(const shell::SessionInfo& info) {
  wire::SessionInfo out;
  out.session = info.session;
  out.pid = info.pid;
  out.argv = info.argv;
  out.shell = info.shell;
  out.cwd = info.cwd;
  out.tty = info.tty;
  if (info.tty) {
    out.rows = info.rows;
    out.cols = info.cols;
  }
  out.state = to_wire(info.state);
  if (info.lifetime == shell::Lifetime::daemon) {
    out.lifetime = wire::Lifetime::daemon;
    out.survives = {true, survives_logout(), true, false};
  }
  if (info.ttl) {
    out.ttlMs = info.ttl->count();
  }
  out.labels = info.labels;
  out.createdAt = format_time(info.created_at);
  if (info.last_output_at) {
    out.lastOutputAt = format_time(*info.last_output_at);
  }
  out.oldest = static_cast<std::int64_t>(info.oldest);
  out.next = static_cast<std::int64_t>(info.next);
  if (info.foreground) {
    out.foreground = wire::Process{info.foreground->pid, info.foreground->command};
  }
  out.job = info.job;
  out.waiting = to_wire(info.waiting);
  out.writer = info.writer;
  out.generation = info.generation;
  if (info.startup) {
    out.startup = wire::StartupReport{info.startup->output, info.startup->sourced, info.startup->duration_ms,
                                      info.startup->warnings};
  }
  if (info.journal_error) {
    out.journalError = error_name(*info.journal_error);
  }
  if (info.limits) {
    out.limits = to_wire(*info.limits, info.counted);
  }
  return out;
}

namespace {

wire::RunState to_wire(shell::RunState state) {
  switch (state) {
    case shell::RunState::exited: return wire::RunState::exited;
    case shell::RunState::signaled: return wire::RunState::signaled;
    case shell::RunState::running: return wire::RunState::running;
    case shell::RunState::waiting_input: return wire::RunState::waitingInput;
    case shell::RunState::matched: return wire::RunState::matched;
    case shell::RunState::stopped: return wire::RunState::stopped;
    case shell::RunState::timed_out: return wire::RunState::timedOut;
    case shell::RunState::cancelled: return wire::RunState::cancelled;
    case shell::RunState::shell_exited: return wire::RunState::shellExited;
    case shell::RunState::lost: return wire::RunState::lost;
  }
  return wire::RunState::lost;
}

}  // namespace

wire::RunResult to_wire(shell::RunResult result) {
  wire::RunResult out;
  out.session = std::move(result.session);
  out.job = std::move(result.job);
  out.state = to_wire(result.state);
  out.exitCode = result.exit_code;
  if (result.signal) {
    out.signal = signal_name(*result.signal);
  }
  out.pipeStatus.assign(result.pipe_status.begin(), result.pipe_status.end());
  out.cwd = std::move(result.cwd);
  out.durationMs = result.duration_ms;
  const bool base64 = result.output.base64 || !travels_as_text(result.output.output);
  out.output = base64 && !result.output.base64 ? to_base64(result.output.output) : std::move(result.output.output);
  out.encoding = base64 ? wire::Encoding::base64 : wire::Encoding::utf_8;
  out.from = static_cast<std::int64_t>(result.output.from);
  out.next = static_cast<std::int64_t>(result.output.next);
  out.totalBytes = static_cast<std::int64_t>(result.output.total_bytes);
  out.omitted = to_wire(result.output.omitted);
  out.replaced = static_cast<std::int64_t>(result.output.replaced);
  out.completion =
      result.completion == shell::Completion::exact ? wire::Completion::exact : wire::Completion::heuristic;
  if (result.syntax_error) {
    out.syntaxError =
        wire::SyntaxFault{result.syntax_error->line, result.syntax_error->text, result.syntax_error->ran_before};
  }
  if (result.expect) {
    out.expect =
        wire::Expected{static_cast<std::int64_t>(result.expect->index), result.expect->text,
                       static_cast<std::int64_t>(result.expect->from), static_cast<std::int64_t>(result.expect->to)};
  }
  out.waiting = to_wire(result.waiting);
  out.interleaved = to_wire(result.interleaved);
  out.survivors = to_wire(result.survivors);
  if (result.restarted) {
    out.restarted = wire::Restarted{result.restarted->cause, result.restarted->exit_code};
  }
  if (!result.warnings.empty()) {
    out.warnings = std::move(result.warnings);
  }
  return out;
}

wire::SessionEventParams to_wire(const shell::SessionEvent& event) {
  using Kind = shell::SessionEvent::Kind;
  wire::SessionEventParams out;
  out.session = event.session;
  out.event = static_cast<wire::EventKind>(event.kind);  // the same, in the same order
  out.state = to_wire(event.state);
  out.offset = static_cast<std::int64_t>(event.at);
  out.time = format_time(event.time);
  out.seq = static_cast<std::int64_t>(event.seq);
  out.job = event.job;
  if (event.run_state) {
    out.result = to_wire(*event.run_state);
  }
  out.exitCode = event.exit_code;
  if (event.signal) {
    out.signal = signal_name(*event.signal);
  }
  if (event.kind == Kind::waiting_input) {
    out.waiting = to_wire(event.waiting);
  } else if (event.kind == Kind::restarted) {
    out.cause = event.cause;
  } else if (event.kind == Kind::cwd) {
    out.cwd = event.text;
  } else if (event.kind == Kind::title) {
    out.title = printable(event.text);
  } else if (event.kind == Kind::writer_changed && !event.text.empty()) {
    out.writer = event.text;
  }
  return out;
}

wire::SessionScreenResult to_wire(shell::ScreenView view) {
  wire::SessionScreenResult result;
  result.rows = view.size.rows;
  result.cols = view.size.cols;
  result.cursor = {view.cursor.row, view.cursor.col, view.cursor_visible};
  result.title = std::move(view.title);
  result.alternate = view.alternate;
  result.revision = static_cast<std::int64_t>(view.revision);
  result.lines = std::move(view.lines);
  if (view.changed) {
    result.changed.emplace(view.changed->begin(), view.changed->end());
  }
  result.next = static_cast<std::int64_t>(view.next);
  result.complete = view.complete;
  return result;
}

}  // namespace rex::methods
