#include "cli/instances.h"

#include <utility>

#include "base/error.h"
#include "transports/unix.h"

namespace rex::cli {
namespace {

using nlohmann::json;
using transports::PrivateDirectory;

constexpr std::string_view unix_scheme = "unix:";

// Sessions named in a message; more would not be read.
constexpr std::size_t max_listed = 20;

std::string instance_of(const std::string& socket) {
  return socket.substr(0, socket.size() - std::string_view(socket_suffix).size());
}

Task<> list_sessions(std::shared_ptr<Instance> instance, std::shared_ptr<std::size_t> open,
                     std::shared_ptr<Event> done) {
  try {
    const json listed = co_await ask(instance->client, "session/list", json::object(), instance_patience);
    instance->sessions = listed.at("sessions");
  } catch (const std::exception& error) {
    instance->problem = error.what();
  }
  --*open;
  done->notify();
}

/// Connects to all there are; `problem` is set for those that take nobody.
std::vector<Instance> dial_all(ClientSide& side) {
  std::vector<Instance> all;
  const PrivateDirectory directory(transports::runtime_directory());
  for (const std::string& socket : directory.names(socket_suffix)) {
    Instance instance{instance_of(socket), nullptr, json::array(), ""};
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

Client dial(ClientSide& side, const std::string& address) {
  if (address.starts_with(unix_scheme)) {
    std::string path = address.substr(unix_scheme.size());
    path = path.starts_with("//") ? path.substr(2) : path;
    return side.connect(transports::dial_unix(side.executor(), path));
  }
  const PrivateDirectory directory(transports::runtime_directory());
  std::vector<std::string> names;
  for (const std::string& socket : directory.names(socket_suffix)) {
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
            transports::dial_or_bury(side.executor(), directory, name + socket_suffix)) {
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
                                         "anywhere is unix:PATH");
  }
  throw Error(Fault::InvalidParams, printable(address) + " could be any of these instances:" + listed(alive));
}

Task<std::vector<Instance>> look_around(ClientSide& side, std::string address) {
  std::vector<Instance> all;
  if (address.empty()) {
    all = dial_all(side);
  } else {
    Instance only{address, dial(side, address), json::array(), ""};
    const json greeted = co_await ask(only.client, "initialize", json::object(), instance_patience);
    only.name = greeted.at("machine").at("instance").get<std::string>();
    all.push_back(std::move(only));
  }
  const auto open = std::make_shared<std::size_t>(0);
  const auto done = std::make_shared<Event>();
  std::vector<std::shared_ptr<Instance>> asked;
  for (Instance& instance : all) {
    asked.push_back(std::make_shared<Instance>(std::move(instance)));
    if (asked.back()->client) {
      ++*open;
      spawn(side.executor(), list_sessions(asked.back(), open, done));
    }
  }
  Waiter waiter(side.executor());
  waiter.subscribe(*done);
  while (*open != 0) {
    co_await waiter.until(never);
  }
  all.clear();
  for (const std::shared_ptr<Instance>& instance : asked) {
    all.push_back(std::move(*instance));
  }
  co_return all;
}

Task<Found> find_session(ClientSide& side, std::string address, std::string name) {
  const std::vector<Instance> all = co_await look_around(side, std::move(address));
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
