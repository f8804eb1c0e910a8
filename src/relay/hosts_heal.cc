// Hosts that were lost: told to their clients, and dialled again for as long as something of the client's needs them.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "relay/hosts.h"

namespace rex::relay {

using nlohmann::json;

namespace {

Task<> until_dialled(std::shared_ptr<Link> link, std::shared_ptr<rpc::Connection> client) {
  Waiter waiter(client->executor());
  waiter.subscribe(link->changed());
  waiter.subscribe(client->closed());
  while (!link->is_dialled() && !client->is_closed()) {
    co_await waiter.until(never);
  }
}

}  // namespace

Hosts::Name* Hosts::find_name(std::uint64_t client, const std::string& name) {
  const auto known = clients_.find(client);
  if (known == clients_.end()) {
    return nullptr;
  }
  const auto found = known->second.names.find(name);
  return found == known->second.names.end() ? nullptr : &found->second;
}

/// Whether something needs it, and dialling it again leads to the same machine.
bool Hosts::heals(const std::string& name, const Name& entry) {
  const bool needed = entry.own ? entry.met : entry.channel && entry.channel->holds();
  return needed && !is_unnamed(name) && !entry.link->target().is_made;
}

/// One try. Throws what a dial throws.
Task<> Hosts::dial_again(std::string name, rpc::Call& call, bool unasked) {
  const std::shared_ptr<rpc::Connection> client = call.connection();
  Name* entry = find_name(client->number(), name);
  if (entry->own) {
    const Link& lost = *entry->link;
    entry->link = std::make_shared<Link>(client->executor(), name, lost.target(), lost.keep_alive(), pipes_);
    std::shared_ptr<Link> link = entry->link;
    co_await dial(std::move(link), name, json(), call, unasked);
  } else {
    const std::shared_ptr<Link> link = co_await link_of_file(name, call, unasked);
    entry = find_name(client->number(), name);
    if (entry == nullptr || entry->own || entry->link == link) {
      co_return;
    }
    entry->link = link;
  }
  reached(name, client);
}

/// The link of this name is up: it is followed, and what the client had there goes on.
void Hosts::reached(const std::string& name, const std::shared_ptr<rpc::Connection>& client) {
  Name* const entry = find_name(client->number(), name);
  if (entry == nullptr) {
    return;
  }
  spawn(client->executor(), follow(entry->link, name, client));
  if (entry->link->is_up() && entry->channel && entry->channel->holds()) {
    try {
      open(clients_[client->number()], *entry, name, client);
    } catch (const Error& error) {
      entry->channel->give_up(error);
      throw;
    }
  }
}

/// Tells a client what becomes of a link after it was ready.
Task<> Hosts::follow(std::shared_ptr<Link> link, std::string name, std::shared_ptr<rpc::Connection> client) {
  if (is_unnamed(name)) {
    co_return;
  }
  Waiter waiter(client->executor());
  waiter.subscribe(link->changed());
  waiter.subscribe(client->closed());
  const TimePoint since = Clock::now();
  LinkState told = LinkState::ready;
  bool again = false;
  while (!client->is_closed()) {
    if (link->state() != told) {
      told = link->state();
      json status{{"host", name}, {"state", name_of(told)}};
      if (!link->is_up()) {
        status["detail"] = link->reason();
      }
      Name* const entry = told == LinkState::lost ? find_name(client->number(), name) : nullptr;
      again = entry != nullptr && heals(name, *entry);
      if (again) {
        if (Clock::now() - since > longest_pause) {
          entry->pause.begin_anew();  // else it is one that comes and goes
        }
        status["retryMs"] = entry->pause.most().count();
      }
      client->notify("host/status", status);
      if (!again && entry != nullptr && entry->link == link && entry->channel) {
        entry->channel->give_up(Error(Fault::HostLost, "host " + name + " was lost: " + link->reason()));
      }
    }
    if (!link->is_up()) {
      break;
    }
    co_await waiter.until(never);
  }
  if (again && !client->is_closed()) {
    co_await heal(std::move(name), std::move(client));
  }
}

/// Until it is up, nothing needs it any more, or there is no use in it.
Task<> Hosts::heal(std::string name, std::shared_ptr<rpc::Connection> client) {
  Name* entry = find_name(client->number(), name);
  const std::uint64_t healer = next_healer_++;
  entry->healer = healer;
  Waiter waiter(client->executor());
  waiter.subscribe(client->closed());
  TimePoint next = Clock::now() + entry->pause.next();
  for (;;) {
    entry = client->is_closed() ? nullptr : find_name(client->number(), name);
    if (entry == nullptr || entry->healer != healer) {
      co_return;
    }
    const std::shared_ptr<Link> link = entry->link;
    if (link->is_up() || !heals(name, *entry)) {
      entry->healer = 0;
      co_return;  // whoever dialled it follows it
    }
    if (link->state() == LinkState::connecting) {
      co_await until_dialled(link, client);
      continue;
    }
    if (Clock::now() < next) {
      co_await waiter.until(next);
      continue;
    }
    next = Clock::now() + entry->pause.next();
    rpc::Call call(client, "null");
    std::optional<Error> failure;
    try {
      co_await dial_again(name, call, true);
    } catch (const Error& error) {
      failure = error;
    }
    next = std::max(next, Clock::now() + first_pause);
    if (failure && !is_worth_another_dial(*failure)) {
      entry = find_name(client->number(), name);
      if (entry != nullptr && entry->healer == healer) {
        entry->healer = 0;
        client->notify("host/status", json{{"host", name}, {"state", "lost"}, {"detail", failure->message()}});
        if (entry->channel) {
          entry->channel->give_up(*failure);
        }
      }
      co_return;
    }
  }
}

}  // namespace rex::relay
