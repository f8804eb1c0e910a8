// session/*, while there is one: params into options, values into results.
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "base/secret.h"
#include "methods/binding.h"
#include "methods/keys.h"
#include "methods/live_output.h"
#include "methods/methods.h"
#include "methods/to_wire.h"
#include "shell/output_text.h"

namespace rex::methods {
namespace {

std::optional<Milliseconds> milliseconds(const std::optional<std::int64_t>& value) {
  return value ? std::optional(Milliseconds(*value)) : std::nullopt;
}

std::optional<shell::Offset> offset(const std::optional<std::int64_t>& value) {
  return value ? std::optional(static_cast<shell::Offset>(*value)) : std::nullopt;
}

shell::OutputOptions output_options(wire::View view, std::int64_t max_bytes) {
  return {view == wire::View::raw ? shell::View::raw : shell::View::clean, static_cast<std::size_t>(max_bytes)};
}

std::string bytes_of(std::string data, wire::Encoding encoding, std::string_view member) {
  if (encoding == wire::Encoding::utf_8) {
    return data;
  }
  std::optional<std::string> bytes = from_base64(data);
  wipe(data);  // it may be a secret
  if (!bytes) {
    throw invalid_params(member, "is not base64");
  }
  return std::move(*bytes);
}

shell::RunOptions run_options(wire::SessionRunParams params) {
  shell::RunOptions options;
  options.command = std::move(params.command);
  options.timeout = milliseconds(params.timeoutMs);
  options.stdin_empty = params.stdin_ == wire::RunStdin::empty;
  options.isolate = params.isolate;
  options.interactive = params.interactive;
  return options;
}

/// What of the params of session/run changes nothing that runs.
constexpr const char* reading_members[] = {"waitMs", "quietMs",        "expect",       "returnOnInput",
                                           "view",   "maxOutputBytes", "progressToken"};

shell::FollowOptions follow_options(const wire::SessionRunParams& params) {
  shell::FollowOptions options;
  options.wait = milliseconds(params.waitMs);
  options.quiet = milliseconds(params.quietMs);
  options.return_on_input = params.returnOnInput;
  if (!params.expect.empty()) {
    options.expect = std::make_shared<shell::PatternSet>(params.expect, "expect");
  }
  options.output = output_options(params.view, params.maxOutputBytes);
  return options;
}

// ---- the methods that wait

/// Throws SessionNotFound; with a key OutcomeUnknown, for the session may have been there and done it.
std::shared_ptr<shell::Session> find(const shell::Sessions& sessions, const std::string& name, bool has_key) {
  if (has_key && !sessions.contains(name)) {
    throw session_gone(name);
  }
  return sessions.find(name);
}

Task<std::shared_ptr<shell::Begun>> begin(std::shared_ptr<shell::Session> session, shell::RunOptions options,
                                          rpc::Call& call) {
  session->require_writer(call.connection()->number());
  co_return co_await session->begin(std::move(options), call.cancel());
}

Task<std::shared_ptr<shell::Begun>> begin_once(std::shared_ptr<shell::Session> session, wire::SessionRunParams params,
                                               rpc::Call& call, Keys& keys) {
  nlohmann::json executing = wire::write(params);
  for (const char* const member : reading_members) {
    executing.erase(member);
  }
  std::string digest = digest_of(wire::SessionRun::name, std::move(executing));
  wire::Key key = *params.key;
  std::function<Task<std::shared_ptr<shell::Begun>>()> work = [&] {
    return begin(session, run_options(std::move(params)), call);
  };
  const auto begun = co_await keys.once<std::shared_ptr<shell::Begun>>(std::move(key), std::move(digest), call.cancel(),
                                                                       std::move(work));
  if (begun->session.lock() != session) {
    throw session_gone(session->name());  // the one of that name was another
  }
  co_return begun;
}

Task<wire::RunResult> run(wire::SessionRunParams params, rpc::Call& call, shell::Sessions& sessions, Keys& keys,
                          Executor executor) {
  const std::shared_ptr<shell::Session> session = find(sessions, params.session, params.key.has_value());
  const std::shared_ptr<LiveOutput> live = prepare_live(params, session, call);
  shell::FollowOptions wanted = follow_options(params);
  if (live) {
    wanted.began = [live, executor](shell::Offset from, std::optional<shell::Offset> to) {
      start_live(live, from, to, executor);
    };
  }
  std::exception_ptr failure;
  shell::RunResult result;
  try {
    const bool has_key = params.key.has_value();
    auto beginning = has_key ? begin_once(session, std::move(params), call, keys)
                             : begin(session, run_options(std::move(params)), call);
    const std::shared_ptr<shell::Begun> begun = co_await std::move(beginning);
    result = co_await session->follow(begun, std::move(wanted), call.cancel());
  } catch (...) {
    failure = std::current_exception();
  }
  if (live) {
    co_await finish_live(live, executor);
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  const bool given_up = result.state == shell::RunState::cancelled || result.state == shell::RunState::running;
  const wire::RunResult answer = to_wire(std::move(result));
  if (call.cancel() && given_up) {
    throw Error(Fault::RequestCancelled, call.cancel().wish() == Cancel::Wish::stop_work
                                             ? "cancelled; what it started was ended"
                                             : "cancelled; the job goes on")
        .executed(Executed::yes)
        .with("result", RawJson{wire::write(answer).dump()});
  }
  co_return answer;
}

Task<wire::SessionWaitResult> wait(wire::SessionWaitParams params, rpc::Call& call, shell::Sessions& sessions) {
  shell::WaitOptions options;
  options.job = std::move(params.job);
  options.wait = milliseconds(params.waitMs);
  options.from = offset(params.from);
  for (const wire::Condition& condition : params.any) {
    shell::Condition one{};
    one.kind = static_cast<shell::Condition::Kind>(condition.kind);
    one.pattern = condition.match;
    one.from = offset(condition.from);
    one.strip_ansi = condition.stripAnsi;
    one.quiet = Milliseconds(condition.quietMs);
    one.port = static_cast<std::uint16_t>(condition.listening);
    one.path = condition.file;
    one.changed = condition.changed;
    one.bytes = static_cast<shell::Offset>(condition.bytes);
    options.any.push_back(std::move(one));
  }
  const std::shared_ptr<shell::Session> session = sessions.find(params.session);
  shell::WaitResult waited = co_await session->wait(std::move(options), call.cancel());
  wire::SessionWaitResult result;
  if (waited.met) {
    result.met = static_cast<std::int64_t>(*waited.met);
    result.condition = params.any[*waited.met];
  }
  if (waited.result) {
    result.result = to_wire(std::move(*waited.result));
  }
  result.next = static_cast<std::int64_t>(waited.next);
  if (call.cancel() && !waited.met) {
    throw Error(Fault::RequestCancelled, "cancelled; the session goes on")
        .with("result", RawJson{wire::write(result).dump()});
  }
  co_return result;
}

Task<wire::SessionReadResult> read(wire::SessionReadParams params, rpc::Call& call, shell::Sessions& sessions) {
  shell::ReadOptions options{};
  options.stream = params.stream == wire::Stream::stderr_ ? shell::Stream::err : shell::Stream::out;
  options.offset = offset(params.offset);
  options.max_bytes = static_cast<std::size_t>(params.maxBytes);
  options.wait = Milliseconds(params.waitMs);
  const std::shared_ptr<shell::Session> session = sessions.find(params.session);
  shell::ReadResult read = co_await session->read(options, call.cancel());
  // A character that is not whole yet is left for the next read, where that says all.
  const std::size_t tail = incomplete_utf8_tail(read.data);
  const bool cut = tail != 0 && tail < read.data.size() && !read.eof && params.encoding != wire::Encoding::base64 &&
                   is_utf8(std::string_view(read.data).substr(0, read.data.size() - tail));
  if (cut) {
    read.data.resize(read.data.size() - tail);
    read.next -= tail;
  }
  wire::SessionReadResult result;
  const bool clean = params.view == wire::View::clean;
  if (clean) {
    shell::OutputText text(shell::View::clean, read.data.size() * 3, read.from);
    text.feed(read.data);
    read.data = text.finish().output;
  }
  if ((clean || params.encoding != wire::Encoding::base64) && travels_as_text(read.data)) {
    result.data = std::move(read.data);
  } else {
    result.data = to_base64(read.data);
    result.encoding = wire::Encoding::base64;
  }
  result.from = static_cast<std::int64_t>(read.from);
  result.next = static_cast<std::int64_t>(read.next);
  result.oldest = static_cast<std::int64_t>(read.oldest);
  result.end = static_cast<std::int64_t>(read.end);
  result.eof = read.eof;
  if (cut) {
    result.partial = true;
  }
  result.state = to_wire(read.state);
  co_return result;
}

Task<wire::SessionWriteResult> write(wire::SessionWriteParams params, rpc::Call& call, shell::Sessions& sessions) {
  shell::Typing typing{bytes_of(std::move(params.data).value_or(""), params.encoding, "data"), params.submit,
                       params.eof, params.secret, std::move(params.keys)};
  typing.offset = params.inputOffset;
  if (params.secret) {
    typing.data = in_own_memory(typing.data);
  }
  const Wiper wiper(params.secret ? &typing.data : nullptr);
  const std::shared_ptr<shell::Session> session = sessions.find(params.session);
  session->require_writer(call.connection()->number());
  const std::size_t accepted = co_await session->write(std::move(typing), call.cancel());
  co_return wire::SessionWriteResult{static_cast<std::int64_t>(accepted), session->input_offset()};
}

Task<wire::SessionInterruptResult> interrupt(wire::SessionInterruptParams params, shell::Sessions& sessions) {
  const std::shared_ptr<shell::Session> session = sessions.find(params.session);
  const shell::OutputOptions output;
  shell::InterruptResult done = co_await session->interrupt(params.escalate, Milliseconds(params.graceMs), output);
  wire::SessionInterruptResult result;
  result.state = to_wire(done.state);
  if (done.step) {
    result.step = *done.step == "INT" ? wire::Step::INT : *done.step == "TERM" ? wire::Step::TERM : wire::Step::KILL;
  }
  if (done.result) {
    result.result = to_wire(std::move(*done.result));
  }
  co_return result;
}

}  // namespace

void bind_sessions(rpc::MethodTable& table, Executor executor, shell::Sessions& sessions, Keys& keys) {
  // clang-format off
  bind<wire::SessionRun>(table, [&sessions, &keys, executor](wire::SessionRunParams params, rpc::Call& call) { return run(std::move(params), call, sessions, keys, executor); });
  bind<wire::SessionWait>(table, [&](wire::SessionWaitParams params, rpc::Call& call) { return wait(std::move(params), call, sessions); });
  bind<wire::SessionRead>(table, [&](wire::SessionReadParams params, rpc::Call& call) { return read(std::move(params), call, sessions); });
  bind<wire::SessionWrite>(table, [&](wire::SessionWriteParams params, rpc::Call& call) { return write(std::move(params), call, sessions); });
  bind<wire::SessionInterrupt>(table, [&](wire::SessionInterruptParams params, rpc::Call&) { return interrupt(std::move(params), sessions); });
  // clang-format on
  bind<wire::SessionResize>(table, [&](const wire::SessionResizeParams& params, rpc::Call&) {
    sessions.find(params.session)->resize({static_cast<int>(params.rows), static_cast<int>(params.cols)});
    return wire::Done{};
  });
  bind<wire::SessionScreen>(table, [&](const wire::SessionScreenParams& params, rpc::Call&) {
    shell::ScreenOptions options;
    options.ansi = params.format == wire::ScreenFormat::ansi;
    if (params.since) {
      options.since = static_cast<std::uint64_t>(*params.since);
    }
    return to_wire(sessions.find(params.session)->screen(options));
  });
  bind_once<wire::SessionSignal>(table, {&keys, nullptr}, [&](const wire::SessionSignalParams& params, rpc::Call&) {
    const auto session = find(sessions, params.session, params.key.has_value());
    const std::vector<pid_t> reached = session->signal(signal_number(params.signal), params.job);
    return wire::SessionSignalResult{{reached.begin(), reached.end()}};
  });
}

}  // namespace rex::methods
