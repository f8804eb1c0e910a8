#include "methods/keepers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "methods/keys.h"
#include "methods/wire.gen.h"
#include "transports/unix.h"

namespace rex::methods {

using nlohmann::json;

namespace {

constexpr std::size_t digits_of_name = 16;

// A process that is too busy for a listing does not hold up the others' sessions for longer.
constexpr Milliseconds list_patience{2000};
constexpr Milliseconds ask_again_after{10};

// The kernel tells at once when a process of this machine has ended; none is woken to be asked.
constexpr Milliseconds keep_alive{std::chrono::hours(24)};

const std::string* text(const json& params, const char* member) {
  const auto found = params.is_object() ? params.find(member) : params.end();
  return found != params.end() && found->is_string() ? &found->get_ref<const std::string&>() : nullptr;
}

bool is_for_daemon(const json& params) {
  const std::string* const lifetime = text(params, "lifetime");
  return lifetime != nullptr && *lifetime == "daemon";
}

std::string path_of(const std::string& socket) { return transports::lasting_directory() + "/" + socket; }

/// Its directory is not made for a question.
bool has_socket(const std::string& socket) { return access(path_of(socket).c_str(), F_OK) == 0; }

/// The process behind a socket, as the router names it. One that took its place is another: a link to the first, which
/// may be saying its last words, does not lead to it.
std::string host_of(const std::string& socket) {
  struct stat found{};
  if (stat(path_of(socket).c_str(), &found) != 0) {
    return "/" + socket + "/";  // nobody's
  }
  return "/" + socket + "/" + std::to_string(found.st_ino) + "-" + std::to_string(found.st_mtim.tv_sec) + "." +
         std::to_string(found.st_mtim.tv_nsec);
}

relay::Target target_of(const std::string& socket) {
  relay::Target target;
  target.url = "unix://" + path_of(socket);
  target.install = false;
  return target;
}

bool is_kept(const std::string& session) { return has_socket(keeper_socket(session)); }

/// Whether a process listens there; what a dead one left is removed. Throws NotPermitted where others could listen.
bool is_alive(Executor executor, const std::string& socket) {
  const transports::PrivateDirectory directory(transports::lasting_directory());
  return transports::dial_or_bury(executor, directory, socket) != nullptr;
}

/// The sockets of processes that keep a session, or did. Throws what opening the directory throws.
std::vector<std::string> all_sockets() {
  const std::string path = transports::lasting_directory();
  if (access(path.c_str(), F_OK) != 0) {
    return {};  // it is not made for a question
  }
  std::vector<std::string> all = transports::PrivateDirectory(path).sockets();
  std::erase_if(all, [](const std::string& socket) { return !socket.starts_with(keeper_prefix); });
  return all;
}

/// Whoever asks again finds the process that was asked before.
std::string name_by(const wire::Key& key) {
  return "d-" + sha256_of(key.client + "/" + std::to_string(key.seq)).substr(0, digits_of_name);
}

Error exists(const std::string& session) {
  return Error(Fault::SessionExists, "session " + printable(session) + " exists already");
}

std::string what_befell(const wire::SessionInfo& info) {
  return "session " + printable(info.session) + " was lost: " +
         (info.lostBy == wire::LostBy::reboot ? "this machine was started anew" : "its process was killed");
}

/// Of a request that may have been done, by a process that remembers nothing any more.
Error unknown_of_lost(const wire::SessionInfo& info) {
  return info.lostBy == wire::LostBy::reboot ? outcome_unknown(wire::UnknownReason::reboot, what_befell(info))
                                             : session_gone(info.session);
}

}  // namespace

SessionRecords records_of_lasting() {
  return SessionRecords(default_record_directory(), transports::lasting_directory());
}

Error lost_session(const wire::SessionInfo& info) {
  return Error(Fault::SessionEnded, what_befell(info) + "; session/close frees its name");
}

Keepers::Keepers(Executor executor, relay::Hosts& hosts, const shell::Sessions& sessions, Workers& workers, Start start)
    : executor_(executor),
      hosts_(hosts),
      sessions_(sessions),
      workers_(workers),
      start_(std::move(start)),
      records_(records_of_lasting()) {}

std::string keeper_socket(std::string_view session) {
  return std::string(keeper_prefix) + sha256_of(session).substr(0, digits_of_name) +
         std::string(transports::socket_suffix);
}

/// A create that makes its session here is to have made it when the next request comes: it alone looks at the disk at
/// once. Others may wait for that.
bool Keepers::concerns(std::string_view method, const json& params) const {
  if (!method.starts_with("session/")) {
    return false;
  }
  const std::string* const session = text(params, "session");
  if (method == "session/create") {
    return is_for_daemon(params) || (session != nullptr && !sessions_.contains(*session) &&
                                     (is_kept(*session) || records_.contains(keeper_socket(*session))));
  }
  return session != nullptr && !sessions_.contains(*session);
}

/// By a worker: the home of a user may hang.
Task<std::optional<wire::SessionInfo>> Keepers::recorded(std::string socket) {
  std::optional<wire::SessionInfo> found;
  const std::function<void()> look = [&] { found = records_.find(socket); };
  co_await workers_.run(look);
  co_return found;
}

/// What is wrong with the parameters is said here, before a process is started for them. The name of a lost session is
/// taken: whoever had it must not go on with another shell unawares.
Task<relay::Elsewhere::Place> Keepers::place_for_new(json params) {
  const wire::SessionCreateParams typed = wire::read<wire::SessionCreateParams>(params);
  const std::string session = typed.session.value_or(typed.key ? name_by(*typed.key) : "d-" + random_hex(4));
  params["session"] = session;
  if (sessions_.contains(session)) {
    throw exists(session);
  }
  const std::string socket = keeper_socket(session);
  if (!is_alive(executor_, socket)) {
    if (const std::optional<wire::SessionInfo> lost = co_await recorded(socket)) {
      if (typed.key) {
        co_return Place{"", std::move(params)};  // it may be the very request that made it
      }
      throw Error(Fault::SessionExists, what_befell(*lost) + "; session/close frees its name");
    }
    co_await start_(session);
  }
  co_return Place{host_of(socket), std::move(params)};
}

bool has_keeper(Executor executor, const std::string& socket) {
  try {
    return has_socket(socket) && is_alive(executor, socket);
  } catch (const Error&) {
    return true;  // too busy to take another client
  }
}

bool Keepers::is_linked(const std::string& socket) const {
  const std::shared_ptr<relay::Link> link = hosts_.shared(host_of(socket), target_of(socket));
  return link && link->is_up();
}

bool Keepers::is_reachable(const std::string& socket) const {
  return is_linked(socket) || (has_socket(socket) && is_alive(executor_, socket));
}

bool Keepers::is_there(const std::string& socket) const { return is_linked(socket) || has_keeper(executor_, socket); }

Task<relay::Elsewhere::Place> Keepers::find(std::string method, json params) {
  if (method == "session/create") {
    if (!is_for_daemon(params)) {
      throw exists(params["session"].get<std::string>());
    }
    co_return co_await place_for_new(std::move(params));
  }
  const std::string session = params["session"].get<std::string>();
  const std::string socket = keeper_socket(session);
  const bool was_kept = is_kept(session);
  if (is_reachable(socket)) {
    Place place{host_of(socket), std::move(params)};
    if (has_key(place.params) && method != "session/close") {  // a close is remembered by all of us
      place.when_ended = session_gone(session);
    }
    co_return place;
  }
  const std::optional<wire::SessionInfo> lost = co_await recorded(socket);
  if (lost && method != "session/info" && method != "session/close") {
    throw has_key(params) ? unknown_of_lost(*lost) : lost_session(*lost);
  }
  if (was_kept && !lost && !has_key(params)) {
    throw Error(Fault::SessionNotFound,
                "there is no session " + printable(session) + " any more: the process that kept it was ended");
  }
  co_return Place{"", std::move(params)};  // nobody's, or one whose end, or whose answer, is known here
}

std::optional<relay::Known> Keepers::known(const std::string& host) {
  const std::string socket = host.substr(1, host.rfind('/') - 1);
  if (host.ends_with('/') || host_of(socket) != host) {
    return std::nullopt;
  }
  return relay::Known{target_of(socket), keep_alive};
}

/// What the questions of one listing share. Each outlives the listing where its process is too busy to answer.
struct Keepers::Asked {
  explicit Asked(const rpc::Call& by) : call(by.connection(), "null") {}

  rpc::Call call;
  TimePoint deadline = Clock::now() + list_patience;
  std::size_t open = 0;
  bool failed = false;
  std::set<std::string> answered;
  Listed listed;
  Event changed;
};

/// Again where a connection broke and somebody may still listen: the descriptors of a process that ends close one by
/// one, and whoever sees only the first of it would tell neither of a session nor of its loss.
Task<> Keepers::ask(std::shared_ptr<Asked> asked, std::string socket) {
  Waiter waiter(executor_);
  for (;;) {
    std::exception_ptr failure;
    try {
      const std::shared_ptr<relay::Channel> channel = co_await hosts_.channel(host_of(socket), asked->call);
      rpc::Result answer = co_await channel->forward("session/list", json::object(), "", asked->call);
      const json listed = std::move(answer).tree();
      for (const json& info : listed.at("sessions")) {
        asked->listed.sessions.push_back(info);
      }
      asked->answered.insert(socket);
      co_return;
    } catch (const Error&) {
      failure = std::current_exception();
    }
    if (!is_reachable(socket)) {
      co_return;  // its record tells of it
    }
    if (Clock::now() >= asked->deadline) {
      std::rethrow_exception(failure);
    }
    co_await waiter.until(Clock::now() + ask_again_after);
  }
}

Task<Keepers::Listed> Keepers::list(rpc::Call& call) {
  const auto asked = std::make_shared<Asked>(call);
  Waiter waiter(executor_);
  waiter.subscribe(asked->changed);
  waiter.subscribe(call.cancel().changed());
  try {
    for (const std::string& socket : all_sockets()) {
      if (is_there(socket)) {
        ++asked->open;
        spawn(executor_, ask(asked, socket), [asked](std::exception_ptr failure) {
          --asked->open;
          asked->failed = asked->failed || failure;
          asked->changed.notify();
        });
      }
    }
    while (asked->open != 0 && !call.cancel() && Clock::now() < asked->deadline) {
      co_await waiter.until(asked->deadline);
    }
    std::set<std::string> there = asked->answered;
    for (std::string& socket : all_sockets()) {
      if (!there.contains(socket) && is_there(socket)) {
        there.insert(std::move(socket));
      }
    }
    SessionRecords::Lost lost;
    const std::function<void()> look = [&] {
      lost = records_.lost([&](const std::string& socket) { return there.contains(socket); });
    };
    co_await workers_.run(look);
    for (const wire::SessionInfo& info : lost.sessions) {
      if (!is_there(keeper_socket(info.session))) {  // else it was made meanwhile
        asked->listed.sessions.push_back(wire::write(info));
      }
    }
    if (!lost.problem.empty()) {
      call.connection()->log(lost.problem);
      asked->listed.problem = lost.problem;
    }
  } catch (const Error& error) {
    asked->listed.problem = error.message();
  }
  if (asked->open != 0 || asked->failed) {
    asked->listed.problem +=
        (asked->listed.problem.empty() ? "" : "; ") + std::string("a process that keeps sessions did not answer");
  }
  co_return asked->listed;
}

}  // namespace rex::methods
