#include "relay/router.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "relay/names.h"

namespace rex::relay {

using nlohmann::json;

namespace {

// How long a process of this machine may take to end, from the first sign of it, and when it is looked for again: then,
// and after twice as long each time.
constexpr Milliseconds ending_patience{1000};
constexpr Milliseconds shortest_ending{5};

/// The methods that are about this very connection or binary.
bool is_never_routed(std::string_view method) {
  return method == "initialize" || method == "initialized" || method == "shutdown" || method == "exit" ||
         method == "rpc.discover" || method.starts_with("$/");
}

/// Where `params` wants to be executed.
HostPath host_of(std::string_view method, const json& params) {
  const auto host = params.is_object() && !is_never_routed(method) ? params.find("host") : params.end();
  if (host == params.end() || host->is_null()) {
    return {};
  }
  if (!host->is_string()) {
    throw invalid_params("host", "expected a string");
  }
  return parse_host(host->get_ref<const std::string&>());
}

}  // namespace

bool is_host_name(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const auto is_allowed = [&](char c) {
    return is_alphanumeric(c) || std::string_view("._-+@:").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= max_host_name_bytes && (is_alphanumeric(name[0]) || name[0] == '_') &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

HostPath parse_host(std::string_view path) {
  if (path.empty()) {
    return {};
  }
  std::size_t hops = 0;
  for (std::string_view rest = path;; rest.remove_prefix(rest.find('/') + 1)) {
    if (!is_host_name(rest.substr(0, rest.find('/')))) {
      throw invalid_params("host", "a path of host names, / between them: " + std::string(host_name_rule));
    }
    ++hops;
    if (rest.find('/') == std::string_view::npos) {
      break;
    }
  }
  if (hops > max_hops) {
    throw Error(Fault::HostLoop, "a host path of " + std::to_string(hops) + " names")
        .with("limit", "hops")
        .with("value", static_cast<std::int64_t>(hops))
        .with("max", static_cast<std::int64_t>(max_hops));
  }
  const auto slash = std::min(path.find('/'), path.size());
  return {std::string(path.substr(0, slash)), std::string(path.substr(std::min(slash + 1, path.size())))};
}

/// For requests that name an attachment and nothing else.
std::shared_ptr<Channel> Router::channel_of_attachment(const json& params, const rpc::Connection& client) const {
  const auto id = params.is_object() ? params.find("attachment") : params.end();
  if (id == params.end() || !id->is_string()) {
    return nullptr;
  }
  return hosts_.channel_of(client, id->get_ref<const std::string&>());
}

Task<rpc::Result> Router::call(std::string method, json params, rpc::Call& call) {
  HostPath host = host_of(method, params);
  if (is_never_routed(method)) {
    return local_.call(method, std::move(params), call);
  }
  if (std::shared_ptr<Channel> channel = channel_of_attachment(params, *call.connection())) {
    // Which hop it is has been said by the id; the rest of a path that was given with it is the far side's to follow.
    return channel->forward(std::move(method), std::move(params), std::move(host.rest), call);
  }
  if (!host.first.empty()) {
    return forward(std::move(method), std::move(params), std::move(host), call);
  }
  if (elsewhere_ != nullptr && elsewhere_->concerns(method, params)) {
    return call_elsewhere(std::move(method), std::move(params), call);
  }
  return local_.call(method, std::move(params), call);
}

/// A process that ended between its being found and being reached is looked for again, until it is not there: its
/// descriptors close one by one. A request that it may have read is not sent to another.
Task<rpc::Result> Router::call_elsewhere(std::string method, json params, rpc::Call& call) {
  std::optional<TimePoint> deadline;
  Milliseconds pause = shortest_ending;
  for (;;) {
    Elsewhere::Place place = co_await elsewhere_->find(method, std::move(params));
    params = std::move(place.params);
    if (place.host.empty()) {
      co_return co_await local_.call(method, std::move(params), call);
    }
    std::shared_ptr<Channel> channel;
    try {
      channel = co_await hosts_.channel(std::move(place.host), call);
    } catch (const Error& error) {
      const bool is_gone = error.fault() == Fault::HostUnreachable || error.fault() == Fault::HostNotFound;
      deadline = deadline.value_or(Clock::now() + ending_patience);
      if (!is_gone || Clock::now() >= *deadline) {
        throw;
      }
    }
    if (!channel) {
      Waiter waiter(call.connection()->executor());
      co_await waiter.until(Clock::now() + pause);
      pause *= 2;
      continue;
    }
    try {
      co_return co_await channel->forward(std::move(method), std::move(params), "", call);
    } catch (const ProcessEnded&) {
      if (place.when_ended) {
        throw *place.when_ended;
      }
      throw;
    }
  }
}

Task<rpc::Result> Router::forward(std::string method, json params, HostPath host, rpc::Call& call) {
  const std::shared_ptr<Channel> channel = co_await hosts_.channel(std::move(host.first), call);
  co_return co_await channel->forward(std::move(method), std::move(params), std::move(host.rest), call);
}

void Router::notification(std::string method, json params, const std::shared_ptr<rpc::Connection>& from) {
  if (method.starts_with("$/stream/")) {
    if (const std::shared_ptr<Streams> streams = streams_of(from)) {
      streams->notification(method, params);
    }
    return;
  }
  const HostPath host = host_of(method, params);
  std::shared_ptr<Channel> channel = channel_of_attachment(params, *from);
  if (!channel && !host.first.empty()) {
    channel = hosts_.open_channel(*from, host.first);
    if (!channel) {
      return;
    }
  }
  if (channel) {
    channel->forward(method, std::move(params), host.rest);
  } else {
    local_.notification(method, std::move(params), from);
  }
}

void Router::data(std::uint64_t stream, std::string_view bytes, const std::shared_ptr<rpc::Connection>& from) {
  if (const auto streams = streams_.find(from->number()); streams != streams_.end()) {
    streams->second->data(stream, bytes);
  }
}

std::shared_ptr<Streams> Router::streams_of(const std::shared_ptr<rpc::Connection>& connection) {
  if (!connection->data_allowed()) {
    return nullptr;
  }
  std::shared_ptr<Streams>& streams = streams_[connection->number()];
  if (!streams) {
    streams = std::make_shared<Streams>(
        *connection, false, [this, number = connection->number()](const json& what, std::unique_ptr<Transport> stream) {
          accept(streams_.at(number), what, std::move(stream));
        });
  }
  return streams;
}

void Router::accept(const std::shared_ptr<Streams>& by, const json& what, std::unique_ptr<Transport> stream) {
  std::vector<std::string> via;
  const json names = what.value("via", json::array());
  if (what.value("kind", json()) != "client" || !names.is_array() || names.size() > max_hops) {
    throw Error(Fault::HostProtocol, "a stream for nothing that is known here");
  }
  for (const json& name : names) {
    via.push_back(name.is_string() ? name.get<std::string>().substr(0, max_host_name_bytes) : "");
  }
  const std::shared_ptr<rpc::Connection> client = serve_(std::move(stream));
  hosts_.came_through(*client, std::move(via));
  pipes_->carried(*client, by, what["stream"].get<std::uint64_t>());
}

void Router::end_of(const rpc::Connection& connection) {
  if (const auto streams = streams_.extract(connection.number())) {
    streams.mapped()->end();
  }
  pipes_->end_of(connection);
  hosts_.end_of(connection);
}

}  // namespace rex::relay
