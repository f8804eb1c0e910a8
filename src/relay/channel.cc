#include "relay/channel.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "base/error.h"
#include "relay/names.h"

namespace rex::relay {

using nlohmann::json;

namespace {

/// What a neighbour may say unasked.
bool is_news(std::string_view method) {
  return method == "$/progress" || method == "session/output" || method == "session/event" ||
         method == "file/changed" || method == "host/status";
}

/// As the next hop must read it.
void readdress(json& params, const std::string& rest) {
  if (!params.is_object()) {
    params = json::object();
  }
  if (rest.empty()) {
    params.erase("host");
  } else {
    params["host"] = rest;
  }
}

}  // namespace

/// A request without its answer: while it is, the far side may ask. What it did not ask is not kept for later.
class Channel::UnderWay {
 public:
  explicit UnderWay(Channel& channel) : channel_(channel) {
    ++channel_.pending_;
    channel_.prompts_left_ += max_prompts;
  }
  ~UnderWay() {
    --channel_.pending_;
    channel_.prompts_left_ = std::min(channel_.prompts_left_, channel_.pending_ * max_prompts);
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  Channel& channel_;
};

void Channel::open(const std::vector<std::string>& via) {
  connection_ = link_->channel(shared_from_this(), client_, via);
  if (!connection_) {
    throw Error(Fault::HostProtocol, "host " + name_ + " serves one client at a time, and has one");
  }
}

Error Channel::lost(bool sent) const {
  if (name_.empty()) {
    Error error(Fault::SessionEnded, "the process that kept the session has ended: " + link_->reason());
    return std::move(error).executed(sent ? Executed::unknown : Executed::no);
  }
  Error error(Fault::HostLost, "host " + name_ + " was lost: " + link_->reason());
  return std::move(error).executed(sent ? Executed::unknown : Executed::no).with("host", name_);
}

Task<json> Channel::forward(std::string method, json params, std::string rest, rpc::Call& call) {
  const std::shared_ptr<Channel> self = shared_from_this();
  if (!is_open()) {
    throw lost(false);
  }
  readdress(params, rest);
  const UnderWay under_way(*this);
  json result;
  try {
    result = co_await connection_->call(std::move(method), std::move(params), &call.cancel());
  } catch (const Error& error) {
    const bool ended = error.fault() == Fault::HostLost && !is_open();
    throw ended ? lost(true) : rewritten(error, name_);
  }
  rewrite(result, name_, number_);
  co_return result;
}

void Channel::forward(const std::string& method, json params, const std::string& rest) {
  if (is_open()) {
    readdress(params, rest);
    connection_->notify(method, params);
  }
}

void Channel::close() {
  if (connection_) {
    connection_->close("its client has ended");
  }
  if (!link_->is_shared()) {
    link_->close(LinkState::closed, "its client has ended");
  }
}

Task<json> Channel::call(std::string method, json params, rpc::Call& call) {
  const std::shared_ptr<Channel> self = shared_from_this();
  // The answer to the last request may have come just before, and be still on its way to whoever waits for it.
  Waiter turn(client_->executor());
  co_await turn.until(Clock::now());
  if (method != "host/prompt" || !params.is_object()) {
    throw Error(Fault::MethodNotFound, "a client has no method " + printable(method, 64));
  }
  if (!client_->peer_prompts() || prompts_left_ == 0) {
    throw Error(Fault::NotPermitted, "nobody can be asked now");
  }
  --prompts_left_;
  rewrite(params, name_, number_, true);
  co_return co_await client_->call(std::move(method), std::move(params), &call.cancel());
}

void Channel::notification(std::string method, json params, const std::shared_ptr<rpc::Connection>& /*from*/) {
  if (!is_news(method) || !params.is_object()) {
    return;
  }
  if (method == "session/output" && !continuity_.follows(params)) {
    connection_->close("its output does not go on where it was");
    link_->close(LinkState::lost, "the output that it sent does not go on where it was");
    return;
  }
  rewrite(params, name_, number_, true);
  // In the order in which it came: an answer that came before it is still on its way to the coroutine that waits.
  asio::post(client_->executor(), [client = client_, method = std::move(method), params = std::move(params)] {
    client->notify(method, params);
  });
}

}  // namespace rex::relay
