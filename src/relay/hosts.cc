#include "relay/hosts.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "relay/dial_attempt.h"

namespace rex::relay {

using nlohmann::json;

namespace {

Error not_found(const std::string& name) {
  return Error(Fault::HostNotFound, "no host " + name + ": host/connect makes one, and host/list tells which there are")
      .with("name", name);
}

Error cancelled(const std::string& name) {
  return Error(Fault::RequestCancelled, "host " + name + " was not dialled to the end");
}

/// Which hop it was, unless whoever knew better has said it.
Error with_hop(const Error& error, const std::string& name) {
  Error named = error;
  return named.has("hop") || is_unnamed(name) ? named : std::move(named).with("hop", name);
}

}  // namespace

Hosts::Hosts(std::string instance, Dialer dialer, KnownHost known, std::shared_ptr<Pipes> pipes)
    : instance_(std::move(instance)), dialer_(std::move(dialer)), known_(std::move(known)), pipes_(std::move(pipes)) {}

Task<std::shared_ptr<Link>> Hosts::connect(std::string name, Target target, Milliseconds keep_alive, json token,
                                           rpc::Call& call) {
  const std::uint64_t number = call.connection()->number();
  while (const std::shared_ptr<Link> link = own_link(number, name)) {
    if (!(link->target() == target)) {
      throw Error(Fault::HostExists, "host " + name + " is another target; host/disconnect frees the name")
          .with("name", name);
    }
    if (link->is_up()) {
      co_return link;
    }
    if (link->state() != LinkState::connecting) {
      break;
    }
    const bool unasked = find_name(number, name)->healer != 0;  // that one asks nobody: then this one does
    try {
      co_await await_dial(link, call);
    } catch (const Error&) {
      if (!unasked || call.cancel()) {
        throw;
      }
    }
  }
  if (call.connection()->is_closed()) {
    throw cancelled(name);
  }
  Client& client = clients_[number];
  const auto named = std::ranges::count_if(client.names, [](const auto& each) { return !is_unnamed(each.first); });
  if (static_cast<std::size_t>(named) >= max_hosts && !client.names.contains(name)) {
    throw limit_exceeded("hosts", max_hosts + 1, max_hosts);
  }
  const auto link = std::make_shared<Link>(call.connection()->executor(), name, std::move(target), keep_alive, pipes_);
  if (Name* const lost = find_name(number, name); lost != nullptr && lost->own) {
    lost->link = link;  // what the client has there goes on
  } else {
    const Name before = std::exchange(client.names[name], Name{link, nullptr, true});
    if (before.link) {
      leave(name, before, "dialled anew");
    }
  }
  co_await dial(link, name, std::move(token), call);
  reached(name, call.connection());
  co_return link;
}

Task<> Hosts::dial(std::shared_ptr<Link> link, std::string name, json token, rpc::Call& call, bool unasked) {
  const std::shared_ptr<rpc::Connection> connection = call.connection();
  const std::uint64_t number = connection->number();
  std::optional<Error> failure;
  try {
    DialAttempt attempt(clients_[number].attempts, name, std::move(token), call, unasked);
    std::vector<std::string> via = came_through(clients_[number]);
    co_await link->establish(dialer_, attempt, std::move(via));
  } catch (const Error& error) {
    failure = call.cancel() ? cancelled(name) : with_hop(error, name);
  }
  std::map<std::string, Name>& names = clients_[number].names;
  const auto entry = names.find(name);
  const bool own = entry != names.end() && entry->second.link == link;
  const bool healing = failure && entry != names.end() && entry->second.healer != 0 && is_worth_another_dial(*failure);
  const bool is_last = unasked && failure && !healing && entry != names.end() && entry->second.healer != 0;
  json status{{"host", name}, {"state", !failure ? "ready" : call.cancel() && !healing ? "closed" : "lost"}};
  if (failure) {
    status["detail"] = failure->message();
  }
  if (own && !failure) {
    entry->second.met = true;
  }
  if (healing) {
    status["retryMs"] = entry->second.pause.most().count();
  } else if (failure && own && !entry->second.met) {
    names.erase(entry);
  }
  if (connection->is_closed()) {
    forget(number);
  }
  // Whoever dials unasked tells itself that it gives up.
  const bool is_spared = is_last || (unasked && healing && !takes_news(*connection));
  if (!is_unnamed(name) && !is_spared && (failure || !connection->is_closed())) {
    connection->notify("host/status", status);
  }
  if (failure) {
    throw *failure;
  }
  if (connection->is_closed()) {
    if (own) {
      link->close(LinkState::closed, "its client has ended");
    }
    throw cancelled(name);
  }
}

/// A dial that another request has begun. It may be over without a link and without an error: that request was
/// cancelled.
Task<> Hosts::await_dial(std::shared_ptr<Link> link, rpc::Call& call) {
  Waiter waiter(call.connection()->executor());
  waiter.subscribe(link->changed());
  waiter.subscribe(call.cancel().changed());
  while (!link->is_dialled() && !call.cancel()) {
    co_await waiter.until(never);
  }
  if (call.cancel()) {
    throw cancelled(link->name());
  }
  if (link->failure() && link->state() == LinkState::lost) {
    throw with_hop(*link->failure(), link->name());
  }
}

std::shared_ptr<Link> Hosts::find(const rpc::Connection& client, const std::string& name) const {
  if (const auto found = clients_.find(client.number()); found != clients_.end()) {
    if (const auto entry = found->second.names.find(name); entry != found->second.names.end()) {
      return entry->second.link;
    }
  }
  if (const std::optional<Known> host = known(name)) {
    return shared(name, host->target);
  }
  throw not_found(name);
}

std::vector<std::shared_ptr<Link>> Hosts::list(const rpc::Connection& client) const {
  std::vector<std::shared_ptr<Link>> links;
  if (const auto found = clients_.find(client.number()); found != clients_.end()) {
    for (const auto& [name, entry] : found->second.names) {
      if (!is_unnamed(name)) {
        links.push_back(entry.link);
      }
    }
  }
  return links;
}

std::shared_ptr<Link> Hosts::shared(const std::string& name, const Target& target) const {
  const auto found = shared_.find(name);
  return found != shared_.end() && found->second->target() == target ? found->second : nullptr;
}

void Hosts::disconnect(const rpc::Connection& client, const std::string& name) {
  const auto found = clients_.find(client.number());
  if (found == clients_.end()) {
    return;
  }
  const auto ended = found->second.names.extract(name);
  for (DialAttempt* attempt : std::vector<DialAttempt*>(*found->second.attempts)) {
    if (attempt->name() == name) {
      attempt->cancel().request(Cancel::Wish::stop_work);
    }
  }
  if (ended) {
    leave(name, ended.mapped(), "disconnected");
  }
}

void Hosts::leave(const std::string& name, const Name& entry, std::string_view reason) {
  if (entry.channel) {
    entry.channel->close();
  }
  if (entry.own) {
    entry.link->close(LinkState::closed, reason);
  } else {
    release(name, entry.link);
  }
}

/// A link of the file outlives its clients, but not the last one where the file says another target by now. An unnamed
/// one ends with the last, so that the process behind it knows that nobody is there.
void Hosts::release(const std::string& name, const std::shared_ptr<Link>& link) {
  const auto uses = [&](const auto& client) {
    const auto found = client.second.names.find(name);
    return found != client.second.names.end() && found->second.link == link;
  };
  if (std::ranges::any_of(clients_, uses)) {
    return;
  }
  try {
    const std::optional<Known> host = is_unnamed(name) ? std::nullopt : known(name);
    if (host && host->target == link->target()) {
      return;
    }
  } catch (const Error&) {  // it says nothing that can be read
  }
  link->close(LinkState::closed, is_unnamed(name) ? "nobody uses it" : "the hosts file says another target");
  if (shared(name, link->target()) == link) {
    shared_.erase(name);
  }
}

std::optional<Known> Hosts::known(const std::string& name) const { return known_ ? known_(name) : std::nullopt; }

/// With ours.
std::vector<std::string> Hosts::came_through(const Client& client) const {
  std::vector<std::string> via = client.via;
  via.push_back(instance_);
  return via;
}

/// Lets the client's requests through, and what the client had there go on.
void Hosts::open(Client& of, Name& name, const std::string& called, const std::shared_ptr<rpc::Connection>& client) {
  if (!name.channel) {
    name.channel = std::make_shared<Channel>(client, is_unnamed(called) ? "" : called);
  }
  if (!name.channel->is_open() || name.channel->link() != name.link) {
    name.channel->open(name.link, next_channel_++, came_through(of));
  }
}

Task<std::shared_ptr<Channel>> Hosts::channel(std::string name, rpc::Call& call) {
  const std::shared_ptr<rpc::Connection> connection = call.connection();
  if (connection->is_closed()) {
    throw cancelled(name);
  }
  const std::uint64_t number = connection->number();
  Name* found = find_name(number, name);
  if (found != nullptr && found->own && !found->link->is_up()) {
    if (found->link->state() == LinkState::connecting) {
      co_await await_dial(found->link, call);
    } else if (heals(name, *found)) {
      co_await dial_again(name, call);
    } else {
      throw Error(Fault::HostLost, "host " + name + " was lost: " + found->link->reason()).with("host", name);
    }
    found = find_name(number, name);
  } else if (found == nullptr || !found->link->is_up()) {
    if (is_unnamed(name)) {
      forget_ended(number);
    }
    const std::shared_ptr<Link> link = co_await link_of_file(name, call);
    if (connection->is_closed()) {
      throw cancelled(name);
    }
    found = &clients_[number].names[name];
    if (found->own && found->link) {
      throw cancelled(name);  // the client has given the name to another meanwhile
    }
    if (found->link != link) {
      found->link = link;
      found->own = false;
      reached(name, connection);
    }
  }
  if (found == nullptr) {
    throw not_found(name);
  }
  open(clients_[number], *found, name, connection);
  co_return found->channel;
}

/// That the file says now: dialled if it is not up.
Task<std::shared_ptr<Link>> Hosts::link_of_file(std::string name, rpc::Call& call, bool unasked) {
  for (;;) {
    std::optional<Known> host;
    try {
      host = known(name);
    } catch (const Error& error) {
      if (unasked) {
        throw host_unreachable("prepare", error.message());  // somebody may be writing the file: worth another try
      }
      throw;
    }
    if (!host) {
      throw not_found(name);
    }
    std::shared_ptr<Link> link = shared(name, host->target);
    if (link && link->is_up()) {
      const Name* const before = find_name(call.connection()->number(), name);
      if (before != nullptr && !before->own && before->link != link && !is_unnamed(name)) {
        call.connection()->notify("host/status", json{{"host", name}, {"state", "ready"}});  // by another client's dial
      }
      co_return link;
    }
    if (link && link->state() == LinkState::connecting) {
      co_await await_dial(link, call);  // whose request may have been given up: then it is ours to dial
      const std::shared_ptr<rpc::Connection> client = call.connection();
      if (client->is_closed() || (unasked && find_name(client->number(), name) == nullptr)) {
        throw cancelled(name);  // or nobody would end what is started now
      }
      continue;
    }
    link = std::make_shared<Link>(call.connection()->executor(), name, host->target, host->keep_alive, pipes_);
    shared_[name] = link;
    co_await dial(link, name, json(), call, unasked);
    co_return link;
  }
}

std::shared_ptr<Channel> Hosts::channel_of(const rpc::Connection& client, const std::string& attachment) const {
  if (const auto known = clients_.find(client.number()); known != clients_.end()) {
    for (const auto& [name, entry] : known->second.names) {
      if (entry.channel && entry.channel->knows(attachment)) {
        return entry.channel;
      }
    }
  }
  return nullptr;
}

std::shared_ptr<Channel> Hosts::open_channel(const rpc::Connection& client, const std::string& name) const {
  const auto known = clients_.find(client.number());
  if (known == clients_.end()) {
    return nullptr;
  }
  const auto found = known->second.names.find(name);
  return found == known->second.names.end() ? nullptr : found->second.channel;
}

void Hosts::came_through(const rpc::Connection& client, std::vector<std::string> via) {
  clients_[client.number()].via = std::move(via);
}

void Hosts::end_of(const rpc::Connection& client) {
  const auto known = clients_.find(client.number());
  if (known == clients_.end()) {
    return;
  }
  for (DialAttempt* attempt : std::vector<DialAttempt*>(*known->second.attempts)) {
    attempt->cancel().request(Cancel::Wish::stop_work);
  }
  const std::map<std::string, Name> names = std::exchange(known->second.names, {});
  for (const auto& [name, entry] : names) {
    leave(name, entry, "its client has ended");
  }
  forget(client.number());
}

std::shared_ptr<Link> Hosts::own_link(std::uint64_t client, const std::string& name) const {
  const auto known = clients_.find(client);
  if (known == clients_.end()) {
    return nullptr;
  }
  const auto found = known->second.names.find(name);
  return found == known->second.names.end() || !found->second.own ? nullptr : found->second.link;
}

void Hosts::end() {
  for (const auto& [name, link] : std::exchange(shared_, {})) {
    link->close(LinkState::closed, "this instance ends");
  }
}

/// Unnamed processes come and go, and nobody asks for one that has gone again.
void Hosts::forget_ended(std::uint64_t client) {
  const auto is_over = [](const std::string& name, const Link& link) {
    return is_unnamed(name) && !link.is_up() && link.is_dialled();
  };
  std::erase_if(shared_, [&](const auto& entry) { return is_over(entry.first, *entry.second); });
  std::erase_if(clients_[client].names, [&](const auto& entry) { return is_over(entry.first, *entry.second.link); });
}

/// Of a client that has ended; the last of its dials is the one that does it.
void Hosts::forget(std::uint64_t client) {
  const auto known = clients_.find(client);
  if (known != clients_.end() && known->second.attempts->empty()) {
    clients_.erase(known);
  }
}

}  // namespace rex::relay
