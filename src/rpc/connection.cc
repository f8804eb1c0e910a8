#include "rpc/connection.h"

#include <string.h>

#include <random>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "rpc/batch.h"

namespace rex::rpc {

using nlohmann::json;

namespace {

constexpr std::size_t read_bytes = 64u << 10;
constexpr std::int64_t retry_after_ms = 100;

void must_not_escape(const std::exception_ptr& escaped) {
  if (escaped) {
    std::rethrow_exception(escaped);
  }
}

std::string new_incident() {
  std::random_device random;
  char text[9];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(random()));
  return text;
}

std::string not_read(const Error& error) {
  return "what may have been an answer could not be read: " + error.message();
}

/// In the place of an answer in which something is not taken.
Response no_answer(const Invalid& invalid) {
  Response response;
  response.id = invalid.id;
  response.error = Error(Fault::HostProtocol, "an answer that is not taken here: " + invalid.error.message())
                       .executed(Executed::unknown);
  return response;
}

}  // namespace

Connection::Connection(Executor executor, std::unique_ptr<Transport> transport, Service& service, Options options)
    : executor_(executor),
      transport_(std::move(transport)),
      service_(service),
      options_(std::move(options)),
      lifecycle_(options_.trusted),
      decoder_(options_.limits) {}

Connection::~Connection() = default;

Task<> Connection::run() {
  const Self self = shared_from_this();
  start(watch_peer(self));
  Waiter waiter(executor_);
  waiter.subscribe(drained_);
  waiter.subscribe(answered_);
  waiter.subscribe(closed_event_);
  const Connection* followed = nullptr;

  std::vector<char> buffer(read_bytes);
  while (!closed_ && decoder_.broken().empty()) {
    if (followed != onward_.get()) {
      followed = onward_.get();
      waiter.subscribe(onward_->drained());
      waiter.subscribe(onward_->closed());
    }
    while (!closed_ && has_too_much_unsent()) {
      co_await waiter.until(never);
    }
    const std::size_t n = co_await read(buffer);
    if (n == 0) {
      input_ended_ = true;
      decoder_.end_of_input();
      take({});
      break;
    }
    heard_ = true;
    take(std::string_view(buffer.data(), n));
    explicit_bzero(buffer.data(), n);  // it may have been a secret
  }
  input_ended_ = true;
  onward_.reset();
  wake_outgoing();
  half_closed_event_.notify();
  if (!decoder_.broken().empty()) {
    log("stream refused: " + std::string(decoder_.broken()));
    if (decoder_.spoke_before()) {
      Error error(Fault::InvalidRequest, std::string(decoder_.broken()));
      send(error_message("null", error));
    }
  }
  // A half-close, and the same for a broken stream: what came before is still answered.
  while (!closed_ && (!calls_.empty() || unsent_bytes() > 0)) {
    co_await waiter.until(never);
  }
  lose(decoder_.broken().empty() ? "end of input" : decoder_.broken());
}

void Connection::allow_data() {
  if (decoder_.framing() == Framing::headers) {
    decoder_.allow_data();
  }
}

bool Connection::has_too_much_unsent() const {
  return unsent_bytes() > options_.limits.unsent_bytes ||
         (onward_ && !onward_->is_closed() && onward_->unsent_bytes() > options_.limits.onward_bytes);
}

/// For tasks that see to their own failures: what escapes from one is a bug, and ends the loop.
void Connection::start(Task<> task) { spawn(executor_, std::move(task), must_not_escape); }

/// 0 at the end, whatever its cause.
Task<std::size_t> Connection::read(std::span<char> buffer) {
  try {
    co_return co_await transport_->read_some(buffer);
  } catch (const Error& error) {
    lose(error.message());
  }
  co_return 0;
}

Task<> Connection::watch_peer(Self self) {
  if (co_await transport_->gone()) {
    if (options_.last_words > Milliseconds(0)) {  // the end of input comes behind them, and ends it
      co_await until_closed(self, Clock::now() + options_.last_words);
    }
    lose("the peer hung up");
  }
}

void Connection::take(std::string_view bytes) {
  corked_ = true;
  decoder_.feed(bytes);
  while (!closed_) {
    const bool stranger = lifecycle_.is_stranger();
    decoder_.limit_frames(stranger ? options_.limits.handshake_frame_bytes : options_.limits.frame_bytes);
    const std::optional<Frame> frame = decoder_.next();
    if (!frame) {
      break;
    }
    if (frame->stream) {
      service_.data(*frame->stream, frame->body, shared_from_this());
      continue;
    }
    take_frame(*frame);
  }
  corked_ = false;
  flush();
}

void Connection::take_frame(const Frame& frame) {
  if (frame.refused) {
    send(error_message("null", *frame.refused));
    miss_answers(not_read(*frame.refused));
    show_out_stranger();
    return;
  }
  Parsed parsed = parse_messages(frame.body, options_.limits);
  std::shared_ptr<Batch> batch;
  if (parsed.batch) {
    batch = std::make_shared<Batch>(parsed.messages.size());
  }
  for (std::size_t slot = 0; slot < parsed.messages.size() && !closed_; ++slot) {
    take_message(std::move(parsed.messages[slot]), batch, slot);
  }
  if (batch) {
    count_out(batch);
  }
}

void Connection::take_message(Message message, const std::shared_ptr<Batch>& batch, std::size_t slot) {
  if (lifecycle_.is_stranger() && !calls_.empty()) {
    return;  // whose token was wrong, and who is about to be told
  }
  if (auto* request = std::get_if<Request>(&message)) {
    if (request->id) {
      if (batch) {
        batch->expect_one();
      }
      take_request(std::move(*request), batch, slot);
    } else {
      take_notification(std::move(*request));
    }
  } else if (auto* response = std::get_if<Response>(&message)) {
    if (response->error && (response->id == "null" || response->id.empty())) {
      miss_answers("the peer could not read a request: " + response->error->message());
    }
    take_response(std::move(*response));
  } else if (const auto& invalid = std::get<Invalid>(message); invalid.is_answer && invalid.id != "null") {
    take_response(no_answer(invalid));
  } else {
    if (batch) {
      batch->expect_one();
    }
    answer(batch, slot, {error_message(invalid.id, invalid.error), invalid.id});
    if (!invalid.is_request) {
      miss_answers(not_read(invalid.error));
    }
  }
  show_out_stranger();
}

/// A stranger has one try: whatever came and did not make a known client of it was its last.
void Connection::show_out_stranger() {
  if (lifecycle_.is_stranger() && calls_.empty()) {
    close("no initialize with the token");
  }
}

void Connection::take_request(Request request, const std::shared_ptr<Batch>& batch, std::size_t slot) {
  const std::string& id = *request.id;
  std::optional<Error> refused = lifecycle_.refusal(request.method);
  std::string key = id_key(id);
  if (!refused && calls_.contains(key)) {
    refused = Error(Fault::InvalidRequest, "this id is in use by a request that has no answer yet")
                  .with("reason", "duplicateId");
  }
  if (!refused && calls_.size() >= options_.limits.in_flight) {
    refused = Error(Fault::Overloaded, "too many requests without their answer")
                  .retryable()
                  .with("retryAfterMs", retry_after_ms);
  }
  if (refused) {
    answer(batch, slot, {error_message(id, *refused), id});
    return;
  }
  auto call = std::make_shared<Call>(shared_from_this(), id);
  calls_.emplace(key, call);
  start(serve(std::move(call), std::move(key), std::move(request), batch, slot));
}

/// The one place where an answer is made: whichever way the handler ends, there is exactly one, or none if the call
/// forgoes it.
Task<> Connection::serve(std::shared_ptr<Call> call, std::string key, Request request, std::shared_ptr<Batch> batch,
                         std::size_t slot) {
  Answer reply;
  try {
    std::string method = request.method;
    const Result result = co_await service_.call(std::move(method), std::move(request.params), *call);
    reply = {result_message(call->id(), result), call->id(), Executed::yes};
  } catch (...) {
    reply = failure_of(*call, request.method, std::current_exception());
  }
  calls_.erase(key);
  answer(batch, slot, call->is_answered() ? std::move(reply) : Answer());
  answered_.notify();
  show_out_stranger();
}

Answer Connection::failure_of(const Call& call, std::string_view method, const std::exception_ptr& escaped) {
  std::string what;
  try {
    std::rethrow_exception(escaped);
  } catch (const Error& error) {
    Answer answer{error_message(call.id(), error), call.id(), error.was_executed()};
    if (answer.text.size() > options_.limits.frame_bytes) {
      Error bare(error.fault(), error.message() + "; the rest is left out, as a message is at most frameBytes long");
      answer.text = error_message(call.id(), std::move(bare).executed(error.was_executed()));
    }
    return answer;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
    what = "something that is no std::exception";
  }
  // What it was may hold anything, so the client gets a number and the log gets the rest.
  Error error(Fault::InternalError, "internal error");
  if (options_.incident) {
    const std::string incident = new_incident();
    options_.incident("incident " + incident + " in " + printable(method) + ": " + printable(what));
    error = Error(Fault::InternalError, "internal error, incident " + incident).with("incident", incident);
  }
  error = std::move(error).executed(Executed::unknown);
  return {error_message(call.id(), error), call.id(), Executed::unknown};
}

void Connection::take_notification(Request notification) {
  if (notification.method == "$/cancelRequest") {
    take_cancel(notification);
    return;
  }
  if (!lifecycle_.heeds(notification.method)) {
    return;
  }
  try {
    service_.notification(notification.method, std::move(notification.params), shared_from_this());
  } catch (const std::exception& error) {
    log("notification " + printable(notification.method) + ": " + printable(error.what()));
  }
}

/// Here and not in a handler: a cancel overtakes everything that is queued.
void Connection::take_cancel(const Request& notification) {
  // From the text, for an id may be an integer that no tree holds exactly.
  const std::optional<std::string> id = find_id(notification.params_text, options_.limits);
  const auto call = id ? calls_.find(id_key(*id)) : calls_.end();
  if (call == calls_.end()) {
    return;
  }
  const json stop = notification.params.value("stop", json(true));
  if (stop.is_boolean()) {
    const std::shared_ptr<Call> held = call->second;
    held->cancel().request(stop.get<bool>() ? Cancel::Wish::stop_work : Cancel::Wish::stop_waiting);
  }
}

void Connection::close(std::string_view reason) {
  flush();
  lose(reason);
}

void Connection::lose(std::string_view reason) {
  if (closed_) {
    return;
  }
  closed_ = true;
  close_reason_ = reason;
  wipe(output_);
  sent_ = 0;
  transport_->close();
  wake_outgoing();
  closed_event_.notify();
}

void Connection::log(const std::string& line) const {
  if (options_.log) {
    options_.log(line);
  }
}

Task<> until_closed(std::shared_ptr<Connection> connection, TimePoint deadline) {
  Waiter waiter(connection->executor());
  waiter.subscribe(connection->closed());
  while (!connection->is_closed() && Clock::now() < deadline) {
    co_await waiter.until(deadline);
  }
}

}  // namespace rex::rpc
