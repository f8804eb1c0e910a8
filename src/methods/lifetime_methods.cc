// session/create, close, info and list: beginnings and ends of sessions, and what is known of all of them, be they kept
// here, by other processes, or lost. Params into options, values into results.
#include <utility>

#include "base/error.h"
#include "methods/binding.h"
#include "methods/keepers.h"
#include "methods/keys.h"
#include "methods/methods.h"
#include "methods/to_wire.h"

namespace rex::methods {
namespace {

shell::CreateOptions create_options(wire::SessionCreateParams params) {
  if (params.argv && params.shell) {
    throw invalid_params("argv", "a program instead of a shell: give one of `shell` and `argv`");
  }
  if (params.argv && params.argv->empty()) {
    throw invalid_params("argv", "must name a program");
  }
  if (!params.tty && !params.argv) {
    throw invalid_params("tty", "a shell needs a terminal; pipes are for a program (`argv`)");
  }
  shell::CreateOptions options;
  options.session = params.session.value_or("");
  options.shell = std::move(params.shell);
  options.argv = std::move(params.argv).value_or(std::vector<std::string>{});
  options.tty = params.tty;
  options.cwd = std::move(params.cwd).value_or("");
  options.env = std::move(params.env);
  options.clear_env = params.clearEnv;
  options.profile = params.profile == wire::Profile::human ? shell::Profile::human : shell::Profile::agent;
  options.startup = static_cast<shell::Startup>(params.startup);
  options.startup_source = std::move(params.startupSource);
  options.startup_timeout = Milliseconds(params.startupTimeoutMs);
  options.rows = static_cast<int>(params.rows);
  options.cols = static_cast<int>(params.cols);
  options.restart = params.restart;
  options.journal_bytes = static_cast<std::size_t>(params.journalBytes);
  options.on_full = static_cast<shell::OnFull>(params.onFull);
  if (options.on_full == shell::OnFull::block && options.journal_bytes < shell::least_blocking_journal) {
    throw invalid_params("journalBytes", "must be at least 1 MiB where a full journal holds the program up");
  }
  options.limits = limits_of(params.limits.value_or(wire::ResourceLimits{}));
  options.labels = std::move(params.labels);
  options.lifetime = static_cast<shell::Lifetime>(params.lifetime);
  options.ttl = params.ttlMs ? std::optional(Milliseconds(*params.ttlMs)) : std::nullopt;
  if (options.ttl && options.lifetime != shell::Lifetime::daemon) {
    throw invalid_params("ttlMs", "is for lifetime daemon; a connection session ends with its client");
  }
  return options;
}

/// Where it cannot be kept the session is as good: it is only not told of once it is lost.
void keep_record(const wire::SessionInfo& info) {
  try {
    records_of_lasting().keep(keeper_socket(info.session), info);
  } catch (const Error&) {
  }
}

Task<wire::SessionInfo> create(wire::SessionCreateParams params, rpc::Call& call, shell::Sessions& sessions,
                               Keepers* keepers) {
  shell::CreateOptions options = create_options(std::move(params));
  const bool stays = options.lifetime == shell::Lifetime::daemon;
  if (stays && keepers != nullptr) {  // nothing is known here of its key, and its name was a lost session's
    throw Error(Fault::SessionExists,
                "session " + printable(options.session) + " was lost; session/close frees its name");
  }
  if (!stays && call.connection()->is_closed()) {  // it waited for another's, and its own client has gone meanwhile
    throw Error(Fault::RequestCancelled, "its client is gone; no session was made");
  }
  const shell::Owner owner = stays ? shell::nobody : owner_of(*call.connection());
  std::shared_ptr<shell::Session> session;
  std::exception_ptr failure;
  try {
    session = co_await sessions.create(std::move(options), owner, call.cancel());
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure && call.cancel()) {
    throw Error(Fault::RequestCancelled, "cancelled; no session was left");
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  wire::SessionInfo info = to_wire(session->info());
  if (stays) {
    keep_record(info);
  }
  co_return info;
}

Task<wire::SessionInfo> info(std::string session, const shell::Sessions& sessions, Keepers* keepers) {
  if (keepers != nullptr && !sessions.contains(session)) {
    if (auto lost = co_await keepers->recorded(keeper_socket(session))) {
      co_return *std::move(lost);
    }
  }
  co_return to_wire(sessions.find(session)->info());
}

/// What became of one that is lost cannot be known, and nothing of it is left but its record.
Task<wire::SessionCloseResult> close(wire::SessionCloseParams params, shell::Sessions& sessions, Keepers* keepers) {
  const bool is_lost = keepers != nullptr && !sessions.contains(params.session);
  if (is_lost && keepers->records().remove(keeper_socket(params.session))) {
    co_return wire::SessionCloseResult{};
  }
  if (params.key && !sessions.contains(params.session)) {  // it may have been there and been ended by this very request
    throw session_gone(params.session);
  }
  const shell::CloseResult closed = co_await sessions.close(std::move(params.session), Milliseconds(params.graceMs));
  wire::SessionCloseResult result;
  result.exitCode = closed.exit_code;
  if (closed.signal) {
    result.signal = signal_name(*closed.signal);
  }
  result.survivors = to_wire(closed.survivors);
  co_return result;
}

/// What is asked again when its process may have gone must be known to others.
KeyStore* store_for_create(KeyStore& store, const nlohmann::json& params) {
  return params.value("lifetime", nlohmann::json()) == "daemon" ? &store : nullptr;
}

KeyStore* store_for_close(KeyStore& store, const shell::Sessions& sessions, const nlohmann::json& params) {
  const nlohmann::json name = params.value("session", nlohmann::json());
  const bool looks = has_key(params) && name.is_string() && sessions.contains(name.get_ref<const std::string&>());
  return looks && sessions.find(name)->info().lifetime != shell::Lifetime::daemon ? nullptr : &store;
}

/// Its own; what other processes keep comes as they wrote it.
Task<rpc::Result> list(nlohmann::json params, rpc::Call& call, const shell::Sessions& sessions, Keepers* keepers) {
  wire::read<wire::SessionListParams>(params);
  wire::SessionListResult own;
  for (const std::shared_ptr<shell::Session>& session : sessions.list()) {
    own.sessions.push_back(to_wire(session->info()));
  }
  nlohmann::json result = wire::write(own);
  if (keepers != nullptr) {
    Keepers::Listed kept = co_await keepers->list(call);
    for (nlohmann::json& info : kept.sessions) {
      result["sessions"].push_back(std::move(info));
    }
    if (!kept.problem.empty()) {
      result["detail"] = std::move(kept.problem);
    }
  }
  co_return result;
}

}  // namespace

void bind_lifetimes(rpc::MethodTable& table, shell::Sessions& sessions, Keys& keys, KeyStore& store, Keepers* keepers) {
  table.bind(std::string(wire::SessionCreate::name), [&, keepers](nlohmann::json params, rpc::Call& call) {
    const Memory memory{&keys, store_for_create(store, params)};
    const auto handler = [&, keepers](wire::SessionCreateParams typed, rpc::Call& by) {
      return create(std::move(typed), by, sessions, keepers);
    };
    return answer_by_key<wire::SessionCreate>(memory, handler, std::move(params), call);
  });
  table.bind(std::string(wire::SessionClose::name), [&, keepers](nlohmann::json params, rpc::Call& call) {
    const Memory memory{&keys, store_for_close(store, sessions, params)};
    const auto handler = [&, keepers](wire::SessionCloseParams typed, rpc::Call&) {
      return close(std::move(typed), sessions, keepers);
    };
    return answer_by_key<wire::SessionClose>(memory, handler, std::move(params), call);
  });
  bind<wire::SessionInfoMethod>(table, [&, keepers](wire::SessionInfoParams params, rpc::Call&) {
    return info(std::move(params.session), sessions, keepers);
  });
  table.bind(std::string(wire::SessionList::name), [&sessions, keepers](nlohmann::json params, rpc::Call& call) {
    return list(std::move(params), call, sessions, keepers);
  });
}

}  // namespace rex::methods
