#include "cli/instances.h"

#include <unistd.h>

#include <set>
#include <utility>

#include "base/error.h"
#include "cli/address.h"
#include "cli/token.h"
#include "hosts/token.h"
#include "methods/keepers.h"
#include "transports/unix.h"

namespace rex::cli {
namespace {

using nlohmann::json;
using transports::PrivateDirectory;

// How long the way to an instance by TCP may take.
constexpr Milliseconds dial_patience{10'000};

// What people call the instances that keep daemon sessions, one each: their names are unique among all of them.
constexpr const char* daemon = "daemon";

// Sessions named in a message; more would not be read.
constexpr std::size_t max_listed = 20;

std::string instance_of(const std::string& socket) {
  return socket.substr(0, socket.size() - transports::socket_suffix.size());
}

Task<> list_sessions(std::shared_ptr<Instance> instance, bool only_own, std::shared_ptr<std::size_t> open,
                     std::shared_ptr<Event> done) {
  try {
    const json listed = co_await ask(instance->client, "session/list", json::object(), instance_patience);
    const bool keeps = instance->name == daemon;
    for (const json& info : listed.at("sessions")) {
      if (keeps || !only_own || info.value("lifetime", "") != "daemon") {  // or it is told once more by its keeper
        instance->sessions.push_back(info);
      }
    }
  } catch (const std::exception& error) {
    instance->problem = error.what();
  }
  --*open;
  done->notify();
}

/// Connects to whoever listens in a directory; `problem` is set for those that take nobody.
void dial_into(std::vector<Instance>& all, ClientSide& side, const std::string& path) {
  const PrivateDirectory directory(path);
  for (const std::string& socket : directory.sockets()) {
    const bool keeps = socket.starts_with(methods::keeper_prefix);
    Instance instance{keeps ? daemon : instance_of(socket), nullptr, json::array(), ""};
    try {
      std::unique_ptr<Transport> transport = transports::dial_or_bury(side.executor(), directory, socket);
      if (!transport) {
        continue;
      }
      instance.client = side.connect(std::move(transport));
    } catch (const Error& error) {
      instance.problem = error.message();
    }
    all.push_back(std::move(instance));
  }
}

/// Daemon sessions whose process is gone without having ended them; `told` are those that were heard of.
Instance lost_sessions(ClientSide& side, const std::set<std::string>& told) {
  Instance lost{daemon, nullptr, json::array(), ""};
  const methods::SessionRecords::Lost all = methods::records_of_lasting().lost(
      [&](const std::string& socket) { return methods::has_keeper(side.executor(), socket); });
  lost.problem = all.problem;
  for (const wire::SessionInfo& info : all.sessions) {
    if (!told.contains(info.session)) {
      lost.sessions.push_back(wire::write(info));
    }
  }
  return lost;
}

std::vector<Instance> dial_all(ClientSide& side) {
  std::vector<Instance> all;
  const std::string lasting = transports::lasting_directory();
  dial_into(all, side, transports::runtime_directory());
  if (lasting != transports::runtime_directory() && access(lasting.c_str(), F_OK) == 0) {
    dial_into(all, side, lasting);
  }
  return all;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < max_listed; ++i) {
    text += "\n  " + printable(names[i]);
  }
  return text + (names.size() > max_listed ? "\n  …" : "");
}

bool is_meant(const std::string& name, const std::string& instance, const std::string& session) {
  if (name == session) {
    return true;
  }
  const std::size_t slash = name.find('/');
  return slash != std::string::npos && name.substr(slash + 1) == session && instance.starts_with(name.substr(0, slash));
}

}  // namespace

namespace {

Task<Client> dial_tcp(ClientSide& side, transports::TcpAddress address) {
  Workers workers(side.executor());
  Cancel cancel;
  const TimePoint deadline = Clock::now() + dial_patience;
  co_return side.connect(co_await transports::dial_tcp(side.executor(), workers, std::move(address), deadline, cancel));
}

Client dial_by_name(ClientSide& side, const std::string& address) {
  const PrivateDirectory directory(transports::runtime_directory());
  std::vector<std::string> names;
  for (const std::string& socket : directory.sockets()) {
    if (instance_of(socket) == address) {
      names = {address};
      break;
    }
    if (socket.starts_with(address)) {
      names.push_back(instance_of(socket));
    }
  }
  std::vector<std::pair<std::string, std::unique_ptr<Transport>>> living;
  std::vector<std::string> alive;
  for (const std::string& name : names) {
    if (std::unique_ptr<Transport> transport =
            transports::dial_or_bury(side.executor(), directory, name + std::string(transports::socket_suffix))) {
      living.emplace_back(name, std::move(transport));
      alive.push_back(name);
    }
  }
  if (living.size() == 1) {
    return side.connect(std::move(living[0].second));
  }
  if (living.empty()) {
    throw Error(Fault::HostNotFound, "no instance " + printable(address) +
                                         " is running: `rex-rpc sessions` lists those that are, and a socket "
                                         "anywhere is unix:PATH or tcp:127.0.0.1:PORT");
  }
  throw Error(Fault::InvalidParams, printable(address) + " could be any of these instances:" + listed(alive));
}

}  // namespace

Task<Dialled> dial(ClientSide& side, Where where) {
  const std::optional<Address> address = parse_address(where.address);
  Dialled dialled;
  std::string token;
  if (!address) {
    dialled.client = dial_by_name(side, where.address);
  } else if (const auto* const tcp = std::get_if<transports::TcpAddress>(&*address)) {
    token = hosts::read_token(where.token_file.empty() ? default_token_file() : where.token_file);
    dialled.client = co_await dial_tcp(side, *tcp);
  } else {
    dialled.client = side.connect(transports::dial_unix(side.executor(), std::get<UnixAddress>(*address).path));
  }
  if (where.greets || !token.empty()) {
    dialled.greeting = co_await greet(dialled.client, std::move(token), where.asks);
  }
  co_return dialled;
}

Task<std::vector<Instance>> look_around(ClientSide& side, Where where) {
  std::vector<Instance> all;
  if (where.address.empty()) {
    all = dial_all(side);
  } else {
    const Dialled dialled = co_await dial(side, where);
    const auto name = dialled.greeting.at("machine").at("instance").get<std::string>();
    all.push_back(Instance{name, dialled.client, json::array(), ""});
  }
  const auto open = std::make_shared<std::size_t>(0);
  const auto done = std::make_shared<Event>();
  std::vector<std::shared_ptr<Instance>> asked;
  for (Instance& instance : all) {
    asked.push_back(std::make_shared<Instance>(std::move(instance)));
    if (asked.back()->client) {
      ++*open;
      spawn(side.executor(), list_sessions(asked.back(), where.address.empty(), open, done));
    }
  }
  Waiter waiter(side.executor());
  waiter.subscribe(*done);
  while (*open != 0) {
    co_await waiter.until(never);
  }
  all.clear();
  std::set<std::string> told;
  for (const std::shared_ptr<Instance>& instance : asked) {
    for (const json& info : instance->name == daemon ? instance->sessions : json::array()) {
      told.insert(info.at("session").get<std::string>());
    }
    all.push_back(std::move(*instance));
  }
  if (Instance lost = where.address.empty() ? lost_sessions(side, told) : Instance{};
      !lost.sessions.empty() || !lost.problem.empty()) {
    all.push_back(std::move(lost));
  }
  co_return all;
}

Task<Found> find_session(ClientSide& side, Where where, std::string name, bool may_be_lost) {
  const std::vector<Instance> all = co_await look_around(side, std::move(where));
  std::vector<Found> found;
  std::vector<std::string> there;
  std::string problems;
  for (const Instance& instance : all) {
    for (const json& info : instance.sessions) {
      const auto session = info.at("session").get<std::string>();
      there.push_back(instance.name + "/" + session);
      if (is_meant(name, instance.name, session)) {
        found.push_back({instance.client, instance.name, info});
      }
    }
    problems += instance.problem.empty() ? "" : "\n  " + instance.name + ": " + instance.problem;
  }
  if (found.size() == 1) {
    if (!found[0].client && !may_be_lost) {
      throw methods::lost_session(wire::read_result<wire::SessionInfo>(found[0].info));
    }
    co_return std::move(found[0]);
  }
  if (!found.empty()) {
    std::vector<std::string> names;
    for (const Found& each : found) {
      names.push_back(each.full_name());
    }
    throw Error(Fault::InvalidParams,
                printable(name) + " could be any of these; give the instance too:" + listed(names));
  }
  throw Error(Fault::SessionNotFound, "no session " + printable(name) +
                                          (there.empty() ? "; there is none at all" : "; there are:" + listed(there)) +
                                          (problems.empty() ? "" : "\nthese instances could not be asked:" + problems));
}

}  // namespace rex::cli
