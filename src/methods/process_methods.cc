// process/run.
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "methods/binding.h"
#include "methods/methods.h"
#include "methods/to_wire.h"
#include "shell/one_off.h"

namespace rex::methods {
namespace {

std::int64_t milliseconds(const timeval& time) { return std::int64_t{time.tv_sec} * 1000 + time.tv_usec / 1000; }

shell::ProcessOptions process_options(wire::ProcessRunParams params) {
  shell::ProcessOptions options;
  if (auto* words = std::get_if<std::vector<std::string>>(&params.command)) {
    if (words->empty()) {
      throw invalid_params("command", "must name a program");
    }
    options.argv = std::move(*words);
  } else {
    options.argv = {"/bin/sh", "-c", std::get<std::string>(std::move(params.command))};
  }
  for (std::size_t i = 0; i < options.argv.size(); ++i) {
    if (const std::size_t at = options.argv[i].find('\0'); at != std::string::npos) {
      throw Error(Fault::InputRefused, "the command holds a NUL byte at offset " + std::to_string(at) +
                                           ", which no program can be given; nothing was run")
          .with("reason", std::string("nul"))
          .with("at", static_cast<std::int64_t>(at));
    }
  }
  options.cwd = std::move(params.cwd).value_or("");
  options.env = std::move(params.env);
  options.clear_env = params.clearEnv;
  options.input = std::move(params.stdin_);
  if (params.encoding == wire::Encoding::base64) {
    std::optional<std::string> bytes = from_base64(options.input);
    if (!bytes) {
      throw invalid_params("stdin", "is not base64");
    }
    options.input = std::move(*bytes);
  }
  if (params.timeoutMs) {
    options.timeout = Milliseconds(*params.timeoutMs);
  }
  options.merge_stderr = params.mergeStderr;
  options.max_output_bytes = static_cast<std::size_t>(params.maxOutputBytes);
  options.limits = limits_of(params.limits.value_or(wire::ResourceLimits{}));
  return options;
}

wire::ProcessState to_wire_state(shell::ProcessState state) {
  switch (state) {
    case shell::ProcessState::exited: return wire::ProcessState::exited;
    case shell::ProcessState::signaled: return wire::ProcessState::signaled;
    case shell::ProcessState::timed_out: return wire::ProcessState::timedOut;
    case shell::ProcessState::cancelled: return wire::ProcessState::cancelled;
    case shell::ProcessState::left:
    case shell::ProcessState::lost: break;
  }
  return wire::ProcessState::lost;
}

/// Both outputs travel in one encoding: base64 as soon as one of them needs it.
std::string text_of(shell::CollectedOutput& output, bool base64) {
  return base64 && !output.base64 ? to_base64(output.output) : std::move(output.output);
}

Task<wire::ProcessRunResult> run(wire::ProcessRunParams params, rpc::Call& call, shell::Nursery& nursery,
                                 Executor executor) {
  shell::ProcessOptions options = process_options(std::move(params));
  shell::ProcessResult done = co_await shell::run_process(executor, nursery, std::move(options), call.cancel());
  wire::ProcessRunResult result;
  result.state = to_wire_state(done.state);
  result.exitCode = done.exit_code;
  if (done.signal) {
    result.signal = signal_name(*done.signal);
  }
  result.coreDumped = done.core_dumped;
  const auto needs_base64 = [](const shell::CollectedOutput& output) {
    return output.base64 || !travels_as_text(output.output);
  };
  const bool base64 = needs_base64(done.out) || needs_base64(done.err);
  result.stdout_ = text_of(done.out, base64);
  result.stderr_ = text_of(done.err, base64);
  result.encoding = base64 ? wire::Encoding::base64 : wire::Encoding::utf_8;
  result.omitted = {to_wire(done.out.omitted), to_wire(done.err.omitted)};
  result.durationMs = done.duration_ms;
  result.usage = {milliseconds(done.usage.ru_utime), milliseconds(done.usage.ru_stime),
                  std::int64_t{done.usage.ru_maxrss} * 1024};
  result.survivors = to_wire(done.survivors);
  const bool left = done.state == shell::ProcessState::left;
  if (left || done.state == shell::ProcessState::cancelled) {
    throw Error(Fault::RequestCancelled,
                left ? "cancelled; what it started goes on" : "cancelled; what it started was ended")
        .executed(Executed::yes)
        .with("result", RawJson{wire::write(result).dump()});
  }
  co_return result;
}

}  // namespace

void bind_processes(rpc::MethodTable& table, Executor executor, shell::Nursery& nursery) {
  bind<wire::ProcessRun>(table, [&nursery, executor](wire::ProcessRunParams params, rpc::Call& call) {
    return run(std::move(params), call, nursery, executor);
  });
}

}  // namespace rex::methods
