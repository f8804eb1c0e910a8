#include "relay/link.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "relay/names.h"
#include "relay/silence.h"

namespace rex::relay {

using nlohmann::json;

namespace {

constexpr Milliseconds greeting_patience{10'000};
constexpr std::size_t max_text = 256;

// What a machine may say of itself.
constexpr std::size_t max_machine_bytes = 16u << 10;

std::string text(const json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? printable(found->get_ref<const std::string&>(), max_text) : "";
}

}  // namespace

std::string_view name_of(LinkState state) {
  switch (state) {
    case LinkState::connecting: return "connecting";
    case LinkState::installing: return "installing";
    case LinkState::ready: return "ready";
    case LinkState::degraded: return "degraded";
    case LinkState::lost: return "lost";
    case LinkState::closed: return "closed";
  }
  return "lost";
}

Link::Link(Executor executor, std::string name, Target target, Milliseconds keep_alive, std::shared_ptr<Pipes> pipes)
    : executor_(executor),
      name_(std::move(name)),
      target_(std::move(target)),
      keep_alive_(keep_alive),
      pipes_(std::move(pipes)) {}

void Link::set_state(LinkState state) {
  if (state_ != state) {
    state_ = state;
    changed_.notify();
  }
}

Task<> Link::establish(Dialer dialer, Attempt& attempt, std::vector<std::string> via) {
  const std::shared_ptr<Link> self = shared_from_this();
  try {
    Target target = target_;
    Reached reached = co_await dialer(std::move(target), attempt);
    require_wanted();
    took_ = std::move(reached.took);
    noise_ = std::move(reached.noise);
    last_words_ = std::move(reached.last_words);
    rpc::Connection::Options options;
    options.last_words = rpc::last_words_patience;
    connection_ = std::make_shared<rpc::Connection>(executor_, std::move(reached.transport), *this, std::move(options));
    spawn(executor_, serve(self));
    attempt.phase("handshake", "");
    const Cancel::Listener give_up(attempt.cancel(), [this] { close(LinkState::closed, "given up"); });
    co_await greet(std::move(via), std::move(reached.token));
    require_wanted();
  } catch (const Error& error) {
    close(attempt.cancel() ? LinkState::closed : LinkState::lost, error.message());
    failure_ = error;
    dialled_ = true;
    changed_.notify();
    throw;
  }
  dialled_ = true;
  set_state(LinkState::ready);
  spawn(executor_, look_after(self));
}

namespace {

/// Ends a link that does not greet in time.
Task<> watch_greeting(std::shared_ptr<Link> link, std::shared_ptr<Waiter> waiter, TimePoint deadline) {
  while (link->state() == LinkState::connecting && Clock::now() < deadline) {
    co_await waiter->until(deadline);
  }
  if (link->state() == LinkState::connecting) {
    link->close(LinkState::lost, "no greeting within " + std::to_string(greeting_patience.count() / 1000) + " s");
  }
}

}  // namespace

Task<> Link::greet(std::vector<std::string> via, std::string token) {
  const auto waiter = std::make_shared<Waiter>(executor_);
  waiter->subscribe(changed_);
  spawn(executor_, watch_greeting(shared_from_this(), waiter, Clock::now() + greeting_patience));
  const TimePoint asked = Clock::now();
  json params{{"protocolVersion", "1.0"},
              {"clientInfo", {{"name", "rex-rpc " + via.back()}}},
              {"capabilities", {{"binary", 1}, {"prompt", true}}}};
  if (!token.empty()) {
    params["token"] = std::move(token);
  }
  json hello;
  try {
    hello = co_await connection_->call("initialize", std::move(params));
  } catch (const Error& error) {
    throw host_unreachable("handshake", error.fault() == Fault::HostLost ? reason() : error.message());
  }
  round_trip_ms_ = milliseconds_since(asked);
  const json machine = hello.is_object() ? hello.value("machine", json::object()) : json();
  if (!machine.is_object() || machine.dump().size() > max_machine_bytes ||
      !text(hello, "protocolVersion").starts_with("1.")) {
    throw Error(Fault::HostProtocol, "what answers there is no rex-rpc of protocol 1: protocolVersion is \"" +
                                         (hello.is_object() ? text(hello, "protocolVersion") : "") + "\"");
  }
  machine_ = machine;
  if (hello.contains("serverInfo") && hello["serverInfo"].is_object()) {
    version_ = text(hello["serverInfo"], "version");
  }
  require_no_loop(via);
  const auto capabilities = hello.find("capabilities");
  if (capabilities != hello.end() && capabilities->is_object() && capabilities->value("binary", json()) == 1) {
    connection_->allow_data();
  }
  if (connection_->data_allowed()) {
    streams_ = std::make_shared<Streams>(*connection_, true, [this](const json& what, std::unique_ptr<Transport> pipe) {
      take_pipe(what, std::move(pipe));
    });
  }
}

void Link::require_no_loop(const std::vector<std::string>& via) const {
  if (std::find(via.begin(), via.end(), text(machine_, "instance")) != via.end()) {
    throw Error(Fault::HostLoop, "host " + name_ + " is an instance that the request has come through");
  }
  if (via.size() > max_hops) {
    throw Error(Fault::HostLoop, "more than " + std::to_string(max_hops) + " hosts on the way");
  }
}

/// Whoever wanted it may have disconnected it while it was dialled, or it fell behind its greeting.
void Link::require_wanted() const {
  if (state_ == LinkState::lost) {
    throw host_unreachable("handshake", reason());
  }
  if (state_ != LinkState::connecting) {
    throw Error(Fault::RequestCancelled, "host " + name_ + " was not dialled to the end");
  }
}

Task<> Link::serve(std::shared_ptr<Link> self) {
  co_await self->connection_->run();
  self->close(LinkState::lost, self->connection_->close_reason());
}

Task<> Link::look_after(std::shared_ptr<Link> self) {
  const auto asking = std::make_shared<bool>(false);
  Waiter waiter(self->executor_);
  waiter.subscribe(self->changed_);
  Silence silence(self->keep_alive_, Clock::now(), boot_time());
  while (self->is_up()) {
    const TimePoint next = Clock::now() + silence.pause();
    while (self->is_up() && Clock::now() < next) {
      co_await waiter.until(next);
    }
    if (!self->is_up()) {
      break;
    }
    switch (silence.look(Clock::now(), boot_time(), self->connection_->heard(), self->is_holding_back())) {
      case Silence::Finding::heard: self->set_state(LinkState::ready); continue;
      case Silence::Finding::unknown: continue;
      case Silence::Finding::silent: break;
      case Silence::Finding::degraded: self->set_state(LinkState::degraded); break;
      case Silence::Finding::lost:
        self->close(LinkState::lost, "nothing was heard for " + std::to_string(silence.lasted().count()) + " ms");
        continue;
    }
    if (!std::exchange(*asking, true)) {
      spawn(self->executor_, ask(self->connection_), [asking](const std::exception_ptr&) { *asking = false; });
    }
  }
}

/// A neighbour that shares no streams is read only as fast as its one client reads.
bool Link::is_holding_back() const {
  const std::shared_ptr<rpc::Connection> client = only_client_.lock();
  return client && client->unsent_bytes() > connection_->limits().onward_bytes;
}

Task<> Link::ask(std::shared_ptr<rpc::Connection> connection) { co_await connection->call("ping", json::object()); }

std::shared_ptr<rpc::Connection> Link::channel(std::shared_ptr<rpc::Service> service,
                                               std::shared_ptr<rpc::Connection> upstream,
                                               const std::vector<std::string>& via) {
  if (!is_up()) {
    throw Error(Fault::HostLost, "host " + name_ + ": " + reason());
  }
  require_no_loop(via);
  if (!streams_) {
    if (std::exchange(only_given_, true)) {
      return nullptr;
    }
    only_ = service;
    only_client_ = upstream;
    connection_->follow(std::move(upstream));
    return connection_;
  }
  json what{{"kind", "client"}, {"via", via}};
  std::uint64_t number = 0;
  std::unique_ptr<Transport> stream = streams_->open(std::move(what), &number);
  const auto channel =
      std::make_shared<rpc::Connection>(executor_, std::move(stream), *service, rpc::Connection::Options{});
  const bool prompts = upstream->peer_prompts();
  json hello{{"clientInfo", {{"name", upstream->peer_name().empty() ? "a client" : upstream->peer_name()}}},
             {"capabilities", {{"prompt", prompts}, {"binary", 1}}}};
  channel->follow(upstream);
  clients_.emplace(number, std::move(upstream));
  // The channel's service and its owner live as long as its stream does.
  spawn(executor_, run_channel(shared_from_this(), channel, std::move(service), number));
  spawn(executor_, greet_channel(channel, std::move(hello)), [](const std::exception_ptr&) {});
  return channel;
}

Task<> Link::run_channel(std::shared_ptr<Link> self, std::shared_ptr<rpc::Connection> channel,
                         std::shared_ptr<rpc::Service> /*service*/, std::uint64_t stream) {
  co_await channel->run();
  self->clients_.erase(stream);
}

/// Nobody waits for the answer: the far side needs to know before the first request, and it reads in order.
Task<> Link::greet_channel(std::shared_ptr<rpc::Connection> channel, json hello) {
  co_await channel->call("initialize", std::move(hello));
}

/// The neighbour opens nothing of its own accord: only what a request of a client of ours has asked for.
void Link::take_pipe(const json& what, std::unique_ptr<Transport> pipe) {
  const std::optional<std::int64_t> of = natural(what, "of");
  const auto client = of ? clients_.find(static_cast<std::uint64_t>(*of)) : clients_.end();
  if (what.value("kind", json()) != "pipe" || client == clients_.end()) {
    throw Error(Fault::NotPermitted, "whoever was dialled opens nothing but pipes of its clients");
  }
  const std::shared_ptr<rpc::Connection> held = client->second;
  pipes_->pass_on(held, what, std::move(pipe));
}

std::string Link::reason() const {
  const std::string words = last_words_ ? last_words_() : "";
  std::string told = reason_.empty() ? "the connection ended" : reason_;
  return words.empty() ? told : told + "; " + words;
}

void Link::close(LinkState state, std::string_view reason) {
  if (state_ == LinkState::lost || state_ == LinkState::closed) {
    return;
  }
  reason_ = reason;
  set_state(state);
  if (connection_) {
    connection_->close(reason);
  }
  if (streams_) {
    streams_->end();
  }
}

Task<rpc::Result> Link::call(std::string method, json params, rpc::Call& call) {
  if (const std::shared_ptr<rpc::Service> only = only_.lock()) {
    return only->call(std::move(method), std::move(params), call);
  }
  throw Error(Fault::MethodNotFound, "nothing is served to whoever was dialled");
}

void Link::notification(std::string method, json params, const std::shared_ptr<rpc::Connection>& from) {
  if (streams_ && streams_->notification(method, params)) {
    return;
  }
  if (const std::shared_ptr<rpc::Service> only = only_.lock()) {
    only->notification(std::move(method), std::move(params), from);
  }
}

void Link::data(std::uint64_t stream, std::string_view bytes, const std::shared_ptr<rpc::Connection>& /*from*/) {
  if (streams_) {
    streams_->data(stream, bytes);
  }
}

}  // namespace rex::relay
