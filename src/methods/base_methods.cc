// initialize, shutdown, exit, ping and the schema itself.
#include <pwd.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/time.h"
#include "methods/attachments.h"
#include "methods/binding.h"
#include "methods/methods.h"
#include "methods/version.h"

namespace rex::methods {
namespace {

wire::Machine machine(const std::string& instance) {
  wire::Machine machine;
  utsname system{};
  uname(&system);
  machine.hostname = system.nodename;
  machine.os = system.sysname;
  machine.arch = system.machine;
  machine.kernel = system.release;
  machine.uid = static_cast<std::int64_t>(getuid());
  if (const passwd* user = getpwuid(getuid())) {
    machine.user = user->pw_name;
    machine.home = user->pw_dir;
    machine.shell = user->pw_shell;
  }
  if (const char* home = std::getenv("HOME")) {
    machine.home = home;
  }
  machine.bootId = boot_id();
  machine.instance = instance;
  return machine;
}

Task<> end_with_process(std::shared_ptr<rpc::Connection> connection, std::shared_ptr<AsyncFd> process) {
  if (co_await process->readable()) {
    connection->close("the client's process has ended");
  }
}

Task<> forget_process(std::shared_ptr<rpc::Connection> connection, std::shared_ptr<AsyncFd> process) {
  co_await rpc::until_closed(connection);
  process->close();
}

/// A pipe can be held open by a grandchild of the client: its own end is what counts.
void watch_client(std::int64_t process_id, const std::shared_ptr<rpc::Connection>& connection, Executor executor) {
  Fd process(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process_id), 0)));
  if (process) {
    auto watched = std::make_shared<AsyncFd>(executor, std::move(process));
    spawn(executor, end_with_process(connection, watched));
    spawn(executor, forget_process(connection, watched));
  } else if (errno == ESRCH) {
    connection->close("the client's process has ended");
  }
}

// One wrong token costs its client this long, and its connection.
constexpr Milliseconds wrong_token_delay{100};

/// Returns at once for a known client and for the right token. Throws Unauthenticated, after a while.
Task<> admit(std::optional<std::string> token, std::shared_ptr<rpc::Connection> connection) {
  if (!connection->lifecycle().is_stranger() || (token && connection->admits(*token))) {
    co_return;
  }
  co_await rpc::until_closed(connection, Clock::now() + wrong_token_delay);
  throw Error(Fault::Unauthenticated, token ? "this is not the token of this instance"
                                            : "params.token is needed here: what is in the instance's token file");
}

Task<wire::InitializeResult> initialize(wire::InitializeParams params, rpc::Call& call, Executor executor,
                                        std::string instance, const shell::Sessions& sessions) {
  co_await admit(std::exchange(params.token, std::nullopt), call.connection());
  if (!params.protocolVersion.starts_with("1.")) {
    throw Error(Fault::InvalidParams,
                "params.protocolVersion: this is version 1.0; offered was " + printable(params.protocolVersion, 32))
        .with("member", std::string("protocolVersion"))
        .with("supported", std::vector<std::string>{"1.0"});
  }
  if (params.processId) {
    watch_client(*params.processId, call.connection(), executor);
  }
  if (params.clientInfo) {
    call.connection()->set_peer_name(params.clientInfo->name);
  }
  if (params.capabilities) {
    call.connection()->set_peer_prompts(params.capabilities->prompt);
    if (params.capabilities->binary) {
      call.connection()->allow_data();
    }
  }
  wire::InitializeResult result;
  result.protocolVersion = "1.0";
  result.serverInfo = {"rex-rpc", std::string(version)};
  result.machine = machine(instance);
  for (const auto& [name, value] : wire::limits::all) {
    result.limits[std::string(name)] = value;
  }
  result.limits["journalMemoryBytes"] = static_cast<std::int64_t>(sessions.journal_memory());
  result.capabilities.binary = 1;
  call.connection()->lifecycle().initialized();
  co_return result;
}

}  // namespace

shell::Owner owner_of(const rpc::Connection& connection) { return connection.number(); }

void bind_base(rpc::MethodTable& table, Executor executor, std::string instance, const shell::Sessions& sessions) {
  bind<wire::Initialize>(table, [executor, instance, &sessions](wire::InitializeParams params, rpc::Call& call) {
    return initialize(std::move(params), call, executor, instance, sessions);
  });
  bind<wire::Shutdown>(table, [](const wire::ShutdownParams&, rpc::Call& call) {
    call.connection()->lifecycle().shut_down();
    return nullptr;
  });
  bind<wire::Ping>(table, [](const wire::PingParams&, rpc::Call&) { return wire::PingResult{format_time(now_utc())}; });
  bind<wire::RpcDiscover>(
      table, [](const wire::RpcDiscoverParams&, rpc::Call&) { return RawJson{std::string(wire::openrpc_document())}; });
  table.bind_notification("initialized", [](const nlohmann::json&, const std::shared_ptr<rpc::Connection>&) {});
  table.bind_notification(
      "exit", [](const nlohmann::json&, const std::shared_ptr<rpc::Connection>& from) { from->close(exit_reason); });
}

void bind_all(rpc::MethodTable& table, const Parts& parts) {
  const auto attachments = std::make_shared<Attachments>(parts.sessions.events());
  bind_base(table, parts.executor, parts.instance, parts.sessions);
  bind_sessions(table, parts.executor, parts.sessions, parts.keys);
  bind_lifetimes(table, parts.sessions, parts.keys, parts.key_store, parts.keepers);
  bind_attachments(table, parts.sessions, attachments);
  bind_processes(table, parts.executor, parts.nursery);
  bind_files(table, parts.workers, parts.key_store);
  bind_search(table, parts.executor);
  bind_watch(table, parts.executor, attachments);
  bind_hosts(table, parts.hosts, parts.hosts_file);
  bind_copies(table, parts.router, parts.pipes, parts.workers);
  bind_forwards(table, parts.router, parts.pipes, parts.workers);
}

}  // namespace rex::methods
