// What a Connection says (connection.h): answers, notifications, and requests of its own with the wait for their
// answers; and how the bytes reach the transport without anyone waiting. Knows nothing of what is read from the peer
// except those answers.
#include <string.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/secret.h"
#include "rpc/batch.h"
#include "rpc/connection.h"
#include "rpc/json_text.h"

namespace rex::rpc {

using nlohmann::json;

namespace {

constexpr std::size_t kept_bytes = 1u << 20;     // capacity an idle output may keep
constexpr std::size_t sent_at_once = 64u << 10;  // taken out before the rest has been sent

/// Overwritten, as it may have held a secret.
void forget_sent(std::string& output, std::size_t& sent) {
  const std::size_t unsent = output.size() - sent;
  std::memmove(output.data(), output.data() + sent, unsent);
  explicit_bzero(output.data() + unsent, sent);
  output.resize(unsent);
  sent = 0;
  if (output.empty() && output.capacity() > kept_bytes) {
    output.shrink_to_fit();
  }
}

/// In the place of `answer`, because what is to be sent with it has `bytes`, and the peer would not read it.
std::string too_long(const Answer& answer, std::size_t bytes, std::size_t max) {
  Error error(Fault::LimitExceeded, "the answer is " + std::to_string(bytes) +
                                        " bytes long, and frameBytes, the most that one message has, is " +
                                        std::to_string(max) +
                                        ": ask for less at a time (length, maxBytes, maxOutputBytes, limit)");
  return error_message(answer.id, std::move(error)
                                      .executed(answer.executed)
                                      .with("limit", "frameBytes")
                                      .with("value", static_cast<std::int64_t>(bytes))
                                      .with("max", static_cast<std::int64_t>(max)));
}

}  // namespace

/// One request of ours that waits for the peer. Takes itself off the list, also when its coroutine is destroyed.
struct Connection::Outgoing {
  Outgoing(Connection& owner, std::string its_id) : connection(owner), id(std::move(its_id)), waiter(owner.executor_) {
    connection.outgoing_.emplace(id, this);
  }
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;
  ~Outgoing() { connection.outgoing_.erase(id); }

  Connection& connection;
  std::string id;
  Waiter waiter;
  std::optional<Response> response;
};

void Call::progress(const json& token, const json& value) {
  connection_->notify("$/progress", json{{"token", token}, {"value", value}});
}

Task<json> Connection::call(std::string method, json params, Cancel* cancel) {
  const Self self = shared_from_this();
  std::string text = co_await call_for_text(std::move(method), std::move(params), cancel);
  co_return Result::written(std::move(text)).tree(options_.limits);
}

Task<std::string> Connection::call_for_text(std::string method, json params, Cancel* cancel) {
  const Self self = shared_from_this();
  Outgoing outgoing(*this, std::to_string(next_id_++));
  std::string text = request_message(outgoing.id, method, params);
  wipe_strings(params);
  if (text.size() > options_.limits.frame_bytes) {
    const std::size_t bytes = text.size();
    wipe(text);
    throw limit_exceeded("frameBytes", static_cast<std::int64_t>(bytes),
                         static_cast<std::int64_t>(options_.limits.frame_bytes));
  }
  send(text);
  wipe(text);  // it may hold a secret
  std::optional<Cancel::Listener> pass_on;
  if (cancel != nullptr) {
    pass_on.emplace(*cancel, [this, cancel, id = outgoing.id] {
      notify("$/cancelRequest", json{{"id", std::stoull(id)}, {"stop", cancel->wish() == Cancel::Wish::stop_work}});
    });
  }
  while (!outgoing.response && !closed_ && !input_ended_) {
    co_await outgoing.waiter.until(never);
  }
  if (!outgoing.response) {
    throw Error(Fault::HostLost, "the connection ended before the answer").executed(Executed::unknown);
  }
  Response& response = *outgoing.response;
  if (response.error) {
    throw std::move(*response.error);
  }
  if (!response.well_formed) {
    throw Error(Fault::HostProtocol, "an answer that is neither a result nor an error").executed(Executed::unknown);
  }
  co_return std::move(response.result_text);
}

void Connection::take_response(Response response) {
  const auto found = outgoing_.find(response.id);
  const bool asked = found != outgoing_.end() && !found->second->response;
  if (!asked || !response.well_formed) {
    if (++stray_responses_ > options_.limits.stray_responses) {
      close("too many answers to nothing that was asked");
      return;
    }
  }
  if (asked) {
    found->second->response = std::move(response);
    found->second->waiter.wake();
  }
}

/// Whoever waits for an answer that was stepped over would wait for ever.
void Connection::miss_answers(std::string_view why) {
  const auto waits = [](const auto& each) { return !each.second->response; };
  if (!input_ended_ && std::ranges::any_of(outgoing_, waits)) {  // at its end they are all told
    lost_an_answer_ = true;
    close(why);
  }
}

void Connection::wake_outgoing() {
  for (const auto& [id, outgoing] : outgoing_) {
    outgoing->waiter.wake();
  }
}

void Connection::notify(std::string_view method, const json& params) {
  send(request_message(std::nullopt, method, params));
}

void Connection::answer(const std::shared_ptr<Batch>& batch, std::size_t slot, Answer reply) {
  if (!batch) {
    if (reply.text.size() > options_.limits.frame_bytes) {
      reply.text = too_long(reply, reply.text.size(), options_.limits.frame_bytes);
    }
    if (!reply.text.empty()) {
      send(reply.text);
    }
    return;
  }
  batch->put(slot, std::move(reply));
  count_out(batch);
}

void Connection::count_out(const std::shared_ptr<Batch>& batch) {
  if (!batch->one_less()) {
    return;
  }
  const std::size_t bytes = batch->bytes();
  while (batch->bytes() > options_.limits.frame_bytes) {
    Answer& longest = batch->longest();
    std::string refusal = too_long(longest, bytes, options_.limits.frame_bytes);
    if (refusal.size() >= longest.text.size()) {
      break;  // there is nothing left to gain
    }
    longest.text = std::move(refusal);
  }
  if (const std::string text = batch->text(); !text.empty()) {
    send(text);
  }
}

void Connection::send_data(std::uint64_t stream, std::string_view bytes) {
  if (closed_) {
    return;
  }
  make_room(output_, max_header_bytes + bytes.size());
  append_data_header(output_, stream, bytes.size());
  output_ += bytes;
  if (!corked_) {
    flush();
  }
}

void Connection::send(std::string_view body) {
  if (closed_) {
    return;
  }
  const std::string_view trailer = frame_trailer(decoder_.framing());
  make_room(output_, max_header_bytes + body.size() + trailer.size());
  append_frame_header(output_, decoder_.framing(), body.size());
  output_ += body;
  output_ += trailer;
  if (!corked_) {
    flush();
  }
}

/// Writes what the peer takes at once: an answer usually costs no further turn of the loop.
void Connection::flush() {
  if (closed_ || draining_ || unsent_bytes() == 0) {
    return;
  }
  try {
    sent_ += transport_->try_write(std::string_view(output_).substr(sent_));
  } catch (const Error& error) {
    lose(error.message());
    return;
  }
  if (unsent_bytes() > 0) {
    draining_ = true;
    start(drain(shared_from_this()));
    return;
  }
  forget_sent(output_, sent_);
}

Task<> Connection::drain(Self self) {
  while (!closed_ && unsent_bytes() > 0) {
    co_await transport_->writable();
    if (closed_) {
      break;
    }
    try {
      sent_ += transport_->try_write(std::string_view(output_).substr(sent_));
    } catch (const Error& error) {
      lose(error.message());
      break;
    }
    if (sent_ > sent_at_once && sent_ > output_.size() / 2) {
      forget_sent(output_, sent_);
    }
    drained_.notify();
  }
  draining_ = false;
  if (!closed_) {
    forget_sent(output_, sent_);
  }
  drained_.notify();
}

}  // namespace rex::rpc
