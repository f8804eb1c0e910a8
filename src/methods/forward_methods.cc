// forward/*: addresses in, listeners and pipes out. A forward is kept where it was opened; its two ends are requests to
// the hosts that have them, which may be this one.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "methods/binding.h"
#include "methods/methods.h"
#include "relay/pipes.h"
#include "transports/tcp.h"
#include "transports/unix.h"

namespace rex::methods {
namespace {

constexpr Milliseconds dial_patience{10'000};

/// Where a forward listens or connects.
struct Address {
  std::string path;  // of a unix socket; empty for TCP
  transports::TcpAddress tcp;
};

Address parse_address(const std::string& text, std::string_view member) {
  if (text.find('\0') != text.npos) {  // where the kernel would take the path to end
    throw invalid_params(member, "has a NUL");
  }
  if (text.starts_with("unix:") && text.size() > 5) {
    return {text.substr(5), {}};
  }
  const std::optional<transports::TcpAddress> tcp =
      text.starts_with("tcp:") ? transports::parse_tcp_address(std::string_view(text).substr(4)) : std::nullopt;
  if (!tcp) {
    throw invalid_params(member, "an address is tcp:HOST:PORT or unix:PATH");
  }
  return {"", *tcp};
}

/// One end that listens here, or a forward that was opened here: its `ticket` then takes the callers.
struct Forward {
  std::string id;
  std::shared_ptr<rpc::Connection> client;
  std::shared_ptr<transports::Listener> listener;
  std::string gives;  // the ticket that callers become pipes by, of an end
  std::unique_ptr<relay::Pipes::Ticket> ticket;
  wire::ForwardEnd listen;
  wire::ForwardEnd connect;
  std::string far_end;  // the id of the end that listens
  std::int64_t connections = 0;
  std::size_t open = 0;
};

/// All of this instance, of all its clients.
class Forwards : public std::enable_shared_from_this<Forwards> {
 public:
  Forwards(rpc::Service& router, std::shared_ptr<relay::Pipes> pipes, Workers& workers)
      : router_(router), pipes_(std::move(pipes)), workers_(workers) {}

  Task<wire::ForwardOpenResult> open(wire::ForwardOpenParams params, rpc::Call& call);
  wire::ForwardOpenResult listen(const wire::ForwardListenParams& params, const rpc::Call& call);
  Task<wire::Done> connect(wire::ForwardConnectParams params, rpc::Call& call);
  Task<wire::Done> close(wire::ForwardCloseParams params, rpc::Call& call);
  [[nodiscard]] wire::ForwardListResult list(const rpc::Connection& client) const;

 private:
  std::shared_ptr<Forward> add(const std::shared_ptr<rpc::Connection>& client);
  void end(const std::shared_ptr<Forward>& forward);
  static Task<> accept_callers(std::shared_ptr<Forwards> self, std::shared_ptr<Forward> forward);
  static Task<> take_caller(std::shared_ptr<Forwards> self, std::shared_ptr<Forward> forward,
                            std::unique_ptr<Transport> caller);
  static Task<> end_with_client(std::shared_ptr<Forwards> self, std::shared_ptr<Forward> forward);

  rpc::Service& router_;
  std::shared_ptr<relay::Pipes> pipes_;
  Workers& workers_;
  std::map<std::string, std::shared_ptr<Forward>> forwards_;
  std::uint64_t next_ = 1;
};

std::shared_ptr<Forward> Forwards::add(const std::shared_ptr<rpc::Connection>& client) {
  const auto of_client = std::count_if(forwards_.begin(), forwards_.end(),
                                       [&client](const auto& forward) { return forward.second->client == client; });
  if (of_client >= wire::limits::forwards) {
    throw limit_exceeded("forwards", of_client + 1, wire::limits::forwards);
  }
  const auto forward = std::make_shared<Forward>();
  forward->id = "f" + std::to_string(next_++);
  forward->client = client;
  forwards_.emplace(forward->id, forward);
  spawn(client->executor(), end_with_client(shared_from_this(), forward));
  return forward;
}

void Forwards::end(const std::shared_ptr<Forward>& forward) {
  forwards_.erase(forward->id);
  forward->ticket.reset();
  if (forward->listener) {
    forward->listener->close();
  }
}

Task<> Forwards::end_with_client(std::shared_ptr<Forwards> self, std::shared_ptr<Forward> forward) {
  co_await rpc::until_closed(forward->client);
  self->end(forward);
}

Task<wire::ForwardOpenResult> Forwards::open(wire::ForwardOpenParams params, rpc::Call& call) {
  parse_address(params.listen.address, "listen.address");
  parse_address(params.connect.address, "connect.address");
  const std::shared_ptr<Forwards> self = shared_from_this();
  const std::shared_ptr<Forward> forward = add(call.connection());
  forward->listen = std::move(params.listen);
  forward->connect = std::move(params.connect);
  const std::weak_ptr<Forward> weak = forward;
  forward->ticket = std::make_unique<relay::Pipes::Ticket>(
      pipes_, call.connection()->number(), [this, weak](std::unique_ptr<Transport> caller) {
        if (const std::shared_ptr<Forward> taken = weak.lock()) {
          spawn(taken->client->executor(), take_caller(shared_from_this(), taken, std::move(caller)),
                [](const std::exception_ptr&) {});
        }
      });
  nlohmann::json request{
      {"address", forward->listen.address}, {"ticket", forward->ticket->text()}, {"host", forward->listen.host}};
  try {
    rpc::Result answer = co_await router_.call("forward/listen", std::move(request), call);
    auto end = read_answer<wire::ForwardOpenResult>(std::move(answer), forward->listen.host);
    forward->far_end = std::move(end.forward);
    forward->listen.address = std::move(end.address);
  } catch (...) {
    self->end(forward);
    throw;
  }
  co_return wire::ForwardOpenResult{forward->id, forward->listen.address};
}

/// A caller of the listening end gets its connection, or is hung up on.
Task<> Forwards::take_caller(std::shared_ptr<Forwards> self, std::shared_ptr<Forward> forward,
                             std::unique_ptr<Transport> caller) {
  if (forward->open >= wire::limits::forward_connections) {
    co_return;
  }
  ++forward->connections;
  std::unique_ptr<Transport> onward;
  const relay::Pipes::Ticket ticket(self->pipes_, forward->client->number(),
                                    [&onward](std::unique_ptr<Transport> pipe) { onward = std::move(pipe); });
  nlohmann::json request{
      {"address", forward->connect.address}, {"ticket", ticket.text()}, {"host", forward->connect.host}};
  rpc::Call call(forward->client, "null");
  co_await self->router_.call("forward/connect", std::move(request), call);
  if (onward) {
    ++forward->open;
    relay::splice(forward->client, std::move(caller), std::move(onward), [forward] { --forward->open; });
  }
}

wire::ForwardOpenResult Forwards::listen(const wire::ForwardListenParams& params, const rpc::Call& call) {
  const Address address = parse_address(params.address, "address");
  const Executor executor = call.connection()->executor();
  std::string told = params.address;
  std::shared_ptr<transports::Listener> listener;
  if (address.path.empty()) {
    auto tcp = std::make_shared<transports::TcpListener>(executor, address.tcp);
    told = "tcp:" + transports::to_string(tcp->address());
    listener = std::move(tcp);
  } else {
    listener = std::make_shared<transports::UnixListener>(executor, address.path);
  }
  const std::shared_ptr<Forward> forward = add(call.connection());
  forward->listener = std::move(listener);
  forward->gives = params.ticket;
  spawn(executor, accept_callers(shared_from_this(), forward));
  return {forward->id, told};
}

Task<> Forwards::accept_callers(std::shared_ptr<Forwards> self, std::shared_ptr<Forward> forward) {
  while (std::unique_ptr<Transport> caller = co_await forward->listener->accept()) {
    try {
      relay::splice(forward->client, std::move(caller), self->pipes_->open(*forward->client, forward->gives));
    } catch (const Error&) {
      self->end(forward);  // nobody is there to take callers
    }
  }
}

Task<wire::Done> Forwards::connect(wire::ForwardConnectParams params, rpc::Call& call) {
  const Address address = parse_address(params.address, "address");
  const std::shared_ptr<rpc::Connection> client = call.connection();
  std::unique_ptr<Transport> stream;
  if (address.path.empty()) {
    stream = co_await transports::dial_tcp(client->executor(), workers_, address.tcp, Clock::now() + dial_patience,
                                           call.cancel());
  } else {
    stream = transports::dial_unix(client->executor(), address.path);
  }
  relay::splice(client, std::move(stream), pipes_->open(*client, params.ticket));
  co_return wire::Done{};
}

Task<wire::Done> Forwards::close(wire::ForwardCloseParams params, rpc::Call& call) {
  const auto found = forwards_.find(params.forward);
  if (found == forwards_.end() || found->second->client != call.connection()) {
    throw invalid_params("forward", "there is no such forward of this connection");
  }
  const std::shared_ptr<Forward> forward = found->second;
  end(forward);
  if (!forward->far_end.empty()) {
    nlohmann::json request{{"forward", forward->far_end}, {"host", forward->listen.host}};
    co_await router_.call("forward/close", std::move(request), call);
  }
  co_return wire::Done{};
}

wire::ForwardListResult Forwards::list(const rpc::Connection& client) const {
  wire::ForwardListResult result;
  for (const auto& [id, forward] : forwards_) {
    if (forward->client.get() == &client && !forward->listener) {
      result.forwards.push_back({id, forward->listen, forward->connect, forward->connections});
    }
  }
  return result;
}

}  // namespace

void bind_forwards(rpc::MethodTable& table, rpc::Service& router, std::shared_ptr<relay::Pipes> pipes,
                   Workers& workers) {
  const auto forwards = std::make_shared<Forwards>(router, std::move(pipes), workers);
  bind<wire::ForwardOpen>(table, [forwards](wire::ForwardOpenParams params, rpc::Call& call) {
    return forwards->open(std::move(params), call);
  });
  bind<wire::ForwardListen>(table, [forwards](const wire::ForwardListenParams& params, rpc::Call& call) {
    return forwards->listen(params, call);
  });
  bind<wire::ForwardConnect>(table, [forwards](wire::ForwardConnectParams params, rpc::Call& call) {
    return forwards->connect(std::move(params), call);
  });
  bind<wire::ForwardClose>(table, [forwards](wire::ForwardCloseParams params, rpc::Call& call) {
    return forwards->close(std::move(params), call);
  });
  bind<wire::ForwardList>(table, [forwards](const wire::ForwardListParams&, rpc::Call& call) {
    return forwards->list(*call.connection());
  });
}

}  // namespace rex::methods
