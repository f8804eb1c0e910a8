#include "hosts/dial.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "hosts/agents.h"
#include "hosts/start.h"
#include "hosts/target.h"
#include "hosts/token.h"
#include "transports/ssh.h"
#include "transports/tcp.h"
#include "transports/unix.h"

namespace rex::hosts {
namespace {

using relay::Attempt;
using relay::Reached;
using relay::Target;

// A listener on this machine answers at once, or is too busy to.
constexpr Milliseconds tcp_patience{5000};

class Dialing {
 public:
  Dialing(Executor executor, transports::Spawner spawner)
      : executor_(executor), workers_(executor), spawner_(std::move(spawner)) {}

  Task<Reached> dial(std::shared_ptr<Dialing> self, Target target, Attempt* attempt);

 private:
  Reached reach_unix(const UnixPlace& place, Attempt* attempt) const;
  Task<Reached> reach_tcp(TcpPlace place, std::string token_file, Attempt* attempt);
  Task<> prepare(std::vector<std::string> argv, Attempt* attempt) const;
  Task<Far> execute(std::vector<std::string> argv, Attempt* attempt) const;
  Task<Reached> reach_ssh(SshPlace place, bool install, Attempt* attempt);
  Task<Reached> reach_exec(ExecPlace place, bool install, Attempt* attempt);

  Executor executor_;
  Workers workers_;
  transports::Spawner spawner_;
  Agents agents_;
};

/// Whether the program is a rex-rpc by its name. Another one is found out by how it takes a line of shell.
bool is_named_rex_rpc(const std::string& program) {
  return program.substr(program.rfind('/') + 1).starts_with("rex-rpc");
}

Reached Dialing::reach_unix(const UnixPlace& place, Attempt* attempt) const {
  attempt->phase("channel", printable(place.path));
  try {
    return {transports::dial_unix(executor_, place.path), "unix socket", "", [] { return std::string(); }};
  } catch (const Error& error) {
    throw host_unreachable("channel", error.message(), "");
  }
}

Task<Reached> Dialing::reach_tcp(TcpPlace place, std::string token_file, Attempt* attempt) {
  transports::TcpAddress address{std::move(place.address), place.port};
  attempt->phase("tcp", transports::to_string(address));
  Reached reached{nullptr, "tcp", "", [] { return std::string(); }};
  if (!token_file.empty()) {
    reached.took = "tcp, token of " + printable(token_file);
    try {
      reached.token = read_token(token_file);  // anew for each dial: it may have been changed
    } catch (const Error& error) {
      throw host_unreachable("auth", error.message(), "");
    }
  }
  reached.transport = co_await transports::dial_tcp(executor_, workers_, std::move(address),
                                                    Clock::now() + tcp_patience, attempt->cancel());
  co_return reached;
}

/// What makes a machine ready may take as long as an image takes to come; whoever waits can cancel.
Task<> Dialing::prepare(std::vector<std::string> argv, Attempt* attempt) const {
  attempt->phase("prepare", printable(argv.front() + " … " + argv.back()));
  transports::Executed executed;
  try {
    executed = co_await transports::execute(executor_, spawner_, std::move(argv));
  } catch (const Error& error) {
    throw host_unreachable("prepare", error.message(), "");
  }
  executed.transport->end_output();
  const Cancel::Listener give_up(attempt->cancel(), [&executed] { executed.transport->close(); });
  char ignored[4096];
  while (co_await executed.transport->read_some(ignored) != 0) {
  }
  if (attempt->cancel()) {
    throw Error(Fault::RequestCancelled, "the dial was cancelled");
  }
  if (!executed.succeeded()) {
    throw host_unreachable("prepare", executed.last_words(), "");
  }
}

Task<Far> Dialing::execute(std::vector<std::string> argv, Attempt* attempt) const {
  attempt->phase("channel", printable(argv.front()));
  try {
    transports::Executed executed = co_await transports::execute(executor_, spawner_, std::move(argv));
    co_return Far{std::move(executed.transport), std::move(executed.last_words), std::move(executed.ended_well)};
  } catch (const Error& error) {
    throw host_unreachable("channel", error.message(), "");
  }
}

Task<Reached> Dialing::reach_exec(ExecPlace place, bool install, Attempt* attempt) {
  const std::string how = "exec " + printable(place.argv.front());
  if (!is_named_rex_rpc(place.argv.front())) {
    std::vector<Agent> agents = agents_.find();
    StartScript script = make_start_script(agents);
    StartOptions options;
    options.install = install;
    Far shell = co_await execute(place.argv, attempt);
    std::optional<Reached> reached =
        co_await start(executor_, std::move(shell), std::move(script), std::move(agents), options, attempt);
    if (reached) {
      reached->took = how + ", " + reached->took;
      co_return std::move(*reached);
    }
  }
  Far direct = co_await execute(std::move(place.argv), attempt);
  co_return Reached{std::move(direct.transport), how, "", std::move(direct.last_words)};
}

Task<Reached> Dialing::reach_ssh(SshPlace place, bool install, Attempt* attempt) {
  std::vector<Agent> agents = agents_.find();
  StartScript script = make_start_script(agents);
  StartOptions options;
  options.is_typed = false;
  options.install = install;
  transports::SshTarget target{std::move(place.user), std::move(place.host), place.port.value_or(0), script.line};
  transports::SshAttempt ssh_attempt{
      [attempt](std::string_view phase, std::string_view detail) { attempt->phase(phase, detail); },
      [attempt](transports::SshQuestion question) {
        return attempt->ask({std::move(question.kind), std::move(question.text), question.secret});
      },
      attempt->cancel()};
  transports::SshReached ssh = co_await transports::dial_ssh(executor_, std::move(target), std::move(ssh_attempt));
  Far far;
  if (ssh.transport) {
    far.transport = std::move(ssh.transport);
    far.last_words = std::move(ssh.last_words);
  } else {
    far = co_await execute(std::move(ssh.argv), attempt);
    far.ended_well = [] { return false; };
  }
  std::optional<Reached> reached =
      co_await start(executor_, std::move(far), std::move(script), std::move(agents), options, attempt);
  reached->took = ssh.took + ", " + reached->took;
  co_return std::move(*reached);
}

Task<Reached> Dialing::dial(std::shared_ptr<Dialing> self, Target target, Attempt* attempt) {
  Place place = parse_target(target);
  if (auto* exec = std::get_if<ExecPlace>(&place)) {
    if (!target.prepare.empty()) {
      co_await prepare(std::move(target.prepare), attempt);
    }
    co_return co_await reach_exec(std::move(*exec), target.install, attempt);
  }
  if (const auto* socket = std::get_if<UnixPlace>(&place)) {
    co_return reach_unix(*socket, attempt);
  }
  if (auto* address = std::get_if<TcpPlace>(&place)) {
    co_return co_await reach_tcp(std::move(*address), std::move(target.token_file), attempt);
  }
  co_return co_await reach_ssh(std::move(std::get<SshPlace>(place)), target.install, attempt);
}

}  // namespace

relay::Dialer make_dialer(Executor executor, transports::Spawner spawner) {
  const auto dialing = std::make_shared<Dialing>(executor, std::move(spawner));
  return [dialing](Target target, Attempt& attempt) { return dialing->dial(dialing, std::move(target), &attempt); };
}

}  // namespace rex::hosts
