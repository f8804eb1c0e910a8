#include "relay/channel.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "relay/names.h"
#include "relay/pause.h"

namespace rex::relay {

using nlohmann::json;

namespace {

/// What a neighbour may say unasked.
bool is_news(std::string_view method) {
  return method == "$/progress" || method == "session/output" || method == "session/event" ||
         method == "file/changed" || method == "attachment/ended" || method == "host/status";
}

std::string text(const json& payload, const char* member) {
  const auto found = payload.is_object() ? payload.find(member) : payload.end();
  return found != payload.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string attachment_of(const json& payload) { return text(payload, "attachment"); }

/// Of the name in `params`, from the neighbour.
std::string path_named(const std::string& rest, const json& params) {
  const std::string name = text(params, "name");
  return rest.empty() ? name : rest + "/" + name;
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
  UnderWay(Channel& channel, std::string connects, bool streams)
      : channel_(channel), connects_(channel.connecting_.insert(std::move(connects))), streams_(streams ? 1 : 0) {
    ++channel_.pending_;
    channel_.opening_ += streams_;
    channel_.prompts_left_ += max_prompts;
  }
  ~UnderWay() {
    channel_.connecting_.erase(connects_);
    --channel_.pending_;
    channel_.opening_ -= streams_;
    channel_.prompts_left_ = std::min(channel_.prompts_left_, channel_.pending_ * max_prompts);
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  Channel& channel_;
  std::multiset<std::string>::iterator connects_;
  std::size_t streams_;
};

void Channel::open(std::shared_ptr<Link> link, std::uint64_t number, const std::vector<std::string>& via) {
  std::shared_ptr<rpc::Connection> connection = link->channel(shared_from_this(), client_, via);
  if (!connection) {
    throw Error(Fault::HostProtocol, "host " + name_ + " serves one client at a time, and has one");
  }
  link_ = std::move(link);
  number_ = number;
  connection_ = connection;
  continuity_ = {};
  holdings_.lost();
  if (name_.empty()) {
    spawn(client_->executor(), watch(shared_from_this(), connection));
  } else if (holds()) {
    spawn(client_->executor(), restore(shared_from_this(), connection));
  }
}

Error Channel::lost(const Link& link, bool sent) const {
  if (connection_->lost_an_answer()) {  // whoever is there goes on
    const std::string whose = name_.empty() ? "the process that keeps the session" : "host " + name_;
    Error error(Fault::HostLost, "the connection to " + whose + " was closed: " + connection_->close_reason());
    error = std::move(error).executed(sent ? Executed::unknown : Executed::no);
    return name_.empty() ? error : std::move(error).with("host", name_);
  }
  if (name_.empty()) {
    Error error(Fault::SessionEnded, "the process that kept the session has ended: " + link.reason());
    return std::move(error).executed(sent ? Executed::unknown : Executed::no);
  }
  Error error(Fault::HostLost, "host " + name_ + " was lost: " + link.reason());
  return std::move(error).executed(sent ? Executed::unknown : Executed::no).with("host", name_);
}

bool Channel::knows(const std::string& attachment) const {
  if (holdings_.streams().contains(attachment)) {
    return true;
  }
  const auto far = far_attachment(attachment);
  return far && far->first == number_;
}

Task<rpc::Result> Channel::forward(std::string method, json params, std::string rest, rpc::Call& call) {
  const Self self = shared_from_this();
  const std::string attachment = attachment_of(params);
  const auto stream = holdings_.streams().find(attachment);
  if (stream != holdings_.streams().end() && (!is_open() || !stream->second.far)) {
    holdings_.forget(attachment);  // there is nothing of it to end
    co_return json::object();
  }
  if (!is_open()) {
    throw lost(*link_, false);
  }
  const std::string let_go = method == "host/disconnect" && params.is_object() ? path_named(rest, params) : "";
  if (!let_go.empty()) {
    holdings_.disconnected(let_go);
  }
  if (holdings_.missing_on(rest) != nullptr) {
    co_await reach(rest, call);
    if (!is_open()) {
      throw lost(*link_, false);
    }
  }
  if (knows(attachment)) {
    params["attachment"] = far_id(attachment);
  }
  readdress(params, rest);
  const bool streams = !ended_by(method).empty();
  if (streams && holdings_.is_full_of_streams(opening_)) {
    throw limit_exceeded("attachments", max_held + 1, max_held);
  }
  const bool lasts = method == "host/connect" || streams;
  json asked = lasts ? params : json();
  const UnderWay under_way(*this, method == "host/connect" ? path_named(rest, params) : "", streams);
  const std::shared_ptr<Link> link = link_;
  const std::shared_ptr<rpc::Connection> connection = connection_;
  const std::uint64_t number = number_;
  std::string result;
  try {
    result = co_await connection->call_for_text(method, std::move(params), &call.cancel());
  } catch (const Error& error) {
    const bool ended = error.fault() == Fault::HostLost && connection->is_closed();
    const bool forgotten = ended && holdings_.forget(attachment);
    if (ended && number == number_ && connection->lost_an_answer() && link->is_shared()) {
      give_up(lost(*link, true));  // the link goes on, so that nothing would bring back what streamed here
    }
    if (forgotten) {
      co_return json::object();  // it was to end, and has
    }
    if (!ended) {
      throw rewritten(error, name_);
    }
    Error told = lost(*link, true);
    if (told.fault() == Fault::SessionEnded) {
      throw ProcessEnded(std::move(told));
    }
    throw told;
  }
  holdings_.forget(attachment);
  if (!let_go.empty()) {
    holdings_.disconnected(let_go);  // what was asked for just before has been answered meanwhile
  }
  if (lasts && number == number_) {
    json told;
    try {
      told = rpc::Result::written(result).tree(connection->limits());
    } catch (const Error& error) {
      throw rewritten(error, name_);
    }
    keep(method, rest, std::move(asked), told);
  }
  co_return rpc::Result::written(rewritten(result, name_, number));
}

/// What the client has by this answer beyond it.
void Channel::keep(const std::string& method, const std::string& rest, json params, const json& result) {
  if (method == "host/connect") {
    holdings_.connected(rest, std::move(params));
    reached_.notify();
  } else if (const std::string far = attachment_of(result); !far.empty()) {
    holdings_.made(method, std::move(params), result, local_attachment(number_, far));
  }
}

void Channel::forward(const std::string& method, json params, const std::string& rest) {
  const std::string attachment = attachment_of(params);
  if (const std::optional<std::int64_t> upto = method == "session/ack" ? natural(params, "offset") : std::nullopt) {
    holdings_.acknowledged(attachment, *upto);
  }
  const auto stream = holdings_.streams().find(attachment);
  if (!is_open() || (stream != holdings_.streams().end() && !stream->second.far)) {
    return;
  }
  if (knows(attachment)) {
    params["attachment"] = far_id(attachment);
  }
  readdress(params, rest);
  connection_->notify(method, params);
}

std::string Channel::far_id(const std::string& attachment) const {
  const auto stream = holdings_.streams().find(attachment);
  return stream != holdings_.streams().end() && stream->second.far ? *stream->second.far
                                                                   : far_attachment(attachment)->second;
}

void Channel::close() {
  if (connection_) {
    connection_->close("its client has ended");
  }
  if (link_ && !link_->is_shared()) {
    link_->close(LinkState::closed, "its client has ended");
  }
}

Task<rpc::Result> Channel::call(std::string method, json params, rpc::Call& call) {
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
  if (const std::string host = text(params, "host");
      holdings_.missing_on(host) != nullptr && !connecting_.contains(host)) {
    throw Error(Fault::NotPermitted, "it is dialled again without asking; host/connect asks");
  }
  --prompts_left_;
  rewrite(params, name_, number_, true);
  co_return co_await client_->call(std::move(method), std::move(params), &call.cancel());
}

void Channel::notification(std::string method, json params, const std::shared_ptr<rpc::Connection>& from) {
  if (from != connection_ || !is_news(method) || !params.is_object()) {
    return;
  }
  if (method == "session/output" && !continuity_.follows(params)) {
    break_off("the output that it sent does not go on where it was");
    return;
  }
  // In the order in which it came: an answer that came before it is still on its way to the coroutine that waits.
  call_soon(client_->executor(),
            [self = shared_from_this(), number = number_, method = std::move(method),
             params = std::move(params)]() mutable { self->deliver(method, std::move(params), number); });
}

void Channel::deliver(const std::string& method, json params, std::uint64_t number) {
  const std::string far = attachment_of(params);
  if (number != number_ || holdings_.is_nobodys(far)) {
    return;
  }
  if (method == "host/status" && text(params, "state") == "lost" && !params.contains("retryMs") &&
      holdings_.missing_on(text(params, "host")) != nullptr) {
    params["retryMs"] = longest_pause.count();  // the neighbour does not, but we ask it again
  }
  rewrite(params, name_, number, true);
  if (const std::optional<std::string> local = holdings_.local_id(far)) {
    params["attachment"] = *local;
  }
  if (!far.empty() && !holdings_.told(attachment_of(params), method, params)) {
    break_off("the output that it resumed does not go on where it was");
    return;
  }
  client_->notify(method, params);
}

/// It is not to be believed any more.
void Channel::break_off(const std::string& why) {
  connection_->close(why);
  link_->close(LinkState::lost, why);
}

}  // namespace rex::relay
