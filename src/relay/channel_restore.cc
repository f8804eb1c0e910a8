// A channel whose link is there anew: what its client has beyond it is asked for again, names first.
#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "relay/channel.h"
#include "relay/names.h"
#include "relay/pause.h"

namespace rex::relay {

using nlohmann::json;

namespace {

// Names that are asked for at a time.
constexpr std::size_t most_dials = 16;

/// Whether asking once more may bring what this refused.
bool may_pass(const Error& error) {
  return error.fault() == Fault::HostLost || error.fault() == Fault::Overloaded || is_worth_another_dial(error);
}

}  // namespace

/// A request for what lies behind a name that is being had again.
Task<> Channel::reach(std::string rest, rpc::Call& call) {
  const Self self = shared_from_this();
  const std::shared_ptr<rpc::Connection> connection = connection_;
  Waiter waiter(client_->executor());
  waiter.subscribe(reached_);
  waiter.subscribe(connection->closed());
  waiter.subscribe(call.cancel().changed());
  while (const Holdings::Name* name = holdings_.missing_on(rest)) {
    if (connection->is_closed()) {
      throw lost(*link_, false);
    }
    if (call.cancel()) {
      throw Error(Fault::RequestCancelled, "cancelled");
    }
    if (!name->problem.empty()) {
      const std::string host = host_behind(name_, name->path);
      throw Error(Fault::HostLost, "host " + host + " was lost and is not there again yet: " + name->problem)
          .with("host", host);
    }
    co_await waiter.until(never);
  }
}

/// A process of this machine that has ended does not come back.
Task<> Channel::watch(Self self, std::shared_ptr<rpc::Connection> connection) {
  co_await rpc::until_closed(connection);
  if (!self->client_->is_closed() && self->connection_ == connection) {
    self->give_up(self->lost(*self->link_, true));
  }
}

void Channel::give_up(const Error& why) {
  for (const auto& [attachment, stream] : holdings_.streams()) {
    tell_ended(attachment, stream.host, why);
  }
  holdings_.forget_streams();
}

void Channel::tell_ended(const std::string& attachment, const std::string& host, const Error& why) {
  client_->notify("attachment/ended", json{{"host", host_behind(name_, host)},
                                           {"attachment", attachment},
                                           {"type", std::string(name_of(why.fault()))},
                                           {"reason", why.message()}});
}

Task<> Channel::restore(Self self, std::shared_ptr<rpc::Connection> connection) {
  Pause pause;
  Waiter waiter(self->client_->executor());
  waiter.subscribe(connection->closed());
  while (!connection->is_closed()) {
    // What is not behind a name first: nobody knows how long a dial takes.
    const bool near = co_await self->restore_streams(connection);
    const bool names = co_await self->restore_names(connection);
    if (near && names) {
      break;
    }
    if (names && co_await self->restore_streams(connection)) {
      break;
    }
    const TimePoint next = Clock::now() + pause.next();
    while (!connection->is_closed() && Clock::now() < next) {
      co_await waiter.until(next);
    }
  }
}

struct Channel::Round {
  std::set<std::string> begun;  // the paths of names that are asked for, each once
  std::size_t open = 0;
  Event changed;
};

/// Asks for those that nothing in front of them is missing for: beside each other, as a dial may take its time.
void Channel::begin_names(const std::shared_ptr<Round>& round, const std::shared_ptr<rpc::Connection>& connection) {
  const std::vector<Holdings::Name> names = holdings_.names();
  for (const Holdings::Name& name : names) {
    const Holdings::Name* const missing = holdings_.missing_on(name.path);
    const bool is_next = missing != nullptr && missing->path == name.path;
    if (is_next && round->open < most_dials && round->begun.insert(name.path).second) {
      ++round->open;
      spawn(client_->executor(), restore_name(shared_from_this(), name, connection), [round](std::exception_ptr) {
        --round->open;
        round->changed.notify();
      });
    }
  }
}

/// Whether all are there. What streams from behind one goes on as soon as that is.
Task<bool> Channel::restore_names(std::shared_ptr<rpc::Connection> connection) {
  const auto round = std::make_shared<Round>();
  Waiter waiter(client_->executor());
  waiter.subscribe(round->changed);
  for (;;) {
    if (!connection->is_closed()) {
      begin_names(round, connection);
    }
    if (round->open == 0) {
      break;
    }
    co_await waiter.until(never);
    if (!connection->is_closed()) {
      co_await restore_streams(connection);
    }
  }
  co_return std::ranges::all_of(holdings_.names(), &Holdings::Name::there) && !connection->is_closed();
}

Task<> Channel::restore_name(Self self, Holdings::Name name, std::shared_ptr<rpc::Connection> connection) {
  std::optional<Error> failure;
  try {
    co_await connection->call("host/connect", std::move(name.params));
    self->holdings_.name_is_there(name.path);
  } catch (const Error& error) {
    failure = rewritten(error, self->name_);
  }
  if (failure && !connection->is_closed()) {
    if (may_pass(*failure)) {
      self->holdings_.name_is_missing(name.path, failure->message());
    } else {
      self->holdings_.name_is_gone(name.path);
      self->client_->notify(
          "host/status",
          json{{"host", host_behind(self->name_, name.path)}, {"state", "lost"}, {"detail", failure->message()}});
    }
  }
  self->reached_.notify();
}

/// Whether all are there that were not.
Task<bool> Channel::restore_streams(std::shared_ptr<rpc::Connection> connection) {
  std::vector<std::string> missing;
  for (const auto& [attachment, stream] : holdings_.streams()) {
    if (!stream.far) {
      missing.push_back(attachment);
    }
  }
  bool all = true;
  for (const std::string& attachment : missing) {
    all = co_await resume(attachment, connection) && all;
  }
  co_return all;
}

/// True when it goes on, or never will.
Task<bool> Channel::resume(std::string attachment, std::shared_ptr<rpc::Connection> connection) {
  const auto found = holdings_.streams().find(attachment);
  if (found == holdings_.streams().end()) {
    co_return true;  // let go meanwhile
  }
  if (connection->is_closed() || holdings_.missing_on(found->second.host) != nullptr) {
    co_return false;
  }
  const std::string method = found->second.method;
  const std::string host = found->second.host;
  const std::int64_t acked = found->second.acked;
  std::optional<Error> failure;
  try {
    json params = holdings_.to_resume(found->second);
    const json result = co_await connection->call(method, std::move(params));
    if (connection->is_closed()) {
      co_return false;
    }
    if (!holdings_.resumed(attachment, result)) {
      json end{{"host", host}, {"attachment", result.value("attachment", json())}};
      failure = Error(Fault::SessionEnded, "another session has its name by now");
      co_await connection->call(std::string(ended_by(method)), std::move(end));
    } else if (const Holdings::Stream& stream = holdings_.streams().at(attachment); stream.acked > acked) {
      // Acknowledged while this was asked.
      json ack{{"attachment", *stream.far}, {"offset", stream.acked}};
      if (!host.empty()) {
        ack["host"] = host;
      }
      connection->notify("session/ack", ack);
    }
  } catch (const Error& error) {
    if (!failure) {
      failure = rewritten(error, name_);
    }
  }
  if (!failure) {
    co_return true;
  }
  if (connection->is_closed() || may_pass(*failure)) {
    co_return false;
  }
  if (holdings_.forget(attachment)) {
    tell_ended(attachment, host, *failure);
  }
  co_return true;
}

}  // namespace rex::relay
