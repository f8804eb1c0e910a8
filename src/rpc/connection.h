// One JSON-RPC 2.0 endpoint over a Transport: reads messages, runs each request as a task of its own, and sees to it
// that every request gets exactly one answer. Must not know any method but $/cancelRequest and $/progress.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/async.h"
#include "base/error.h"
#include "rpc/framing.h"
#include "rpc/lifecycle.h"
#include "rpc/limits.h"
#include "rpc/message.h"
#include "transports/transport.h"

namespace rex::rpc {

/// How long one who asks goes on reading what the other wrote before it hung up.
inline constexpr Milliseconds last_words_patience{1000};

class Connection;
class Batch;
struct Answer;

/// One request from its arrival to its answer. Handlers get it by reference; it lives until they return.
class Call {
 public:
  Call(std::shared_ptr<Connection> connection, std::string id)
      : connection_(std::move(connection)), id_(std::move(id)) {}

  /// The client's wish to end this early; a handler that waits subscribes a Waiter to cancel().changed().
  Cancel& cancel() { return cancel_; }
  [[nodiscard]] const std::shared_ptr<Connection>& connection() const { return connection_; }
  /// The id as the client wrote it, JSON.
  [[nodiscard]] const std::string& id() const { return id_; }
  /// The client has taken the request back in a protocol where that is never answered; nothing is sent for it.
  void forgo_answer() { answered_ = false; }
  [[nodiscard]] bool is_answered() const { return answered_; }
  /// Sends `$/progress {token, value}`.
  void progress(const nlohmann::json& token, const nlohmann::json& value);

 private:
  std::shared_ptr<Connection> connection_;
  std::string id_;
  Cancel cancel_;
  bool answered_ = true;
};

/// What stands behind a Connection and does the work: the Router in production, a few lines in a test.
class Service {
 public:
  virtual ~Service() = default;
  /// Answers one request: a result, or an exception that becomes the error. `params` is null if absent.
  virtual Task<Result> call(std::string method, nlohmann::json params, Call& call) = 0;
  /// Takes one notification, at once and in order. Whatever escapes is logged and goes no further.
  virtual void notification(std::string method, nlohmann::json params, const std::shared_ptr<Connection>& from) = 0;
  /// Takes bytes of a stream that shares the connection's own, as they arrive; only after Connection::allow_data().
  virtual void data(std::uint64_t /*stream*/, std::string_view /*bytes*/, const std::shared_ptr<Connection>& /*from*/) {
  }
};

/// Symmetric: it has no client end and no server end. Its read loop never waits for a write or a handler, so that a
/// cancel or a ping is seen while any number of calls are pending. Always held by shared_ptr: calls outlive the stream.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Options {
    Limits limits;
    bool trusted = true;
    /// Whether this is the token that makes a known client of a stranger; without it nothing does.
    std::function<bool(std::string_view token)> admits;
    std::uint64_t number = 0;  // of no other connection of this process
    /// How long it may take to read what the peer wrote before it hung up: last_words_patience where we ask, as the
    /// answer of one that has ended right behind it is an answer. 0 where it asks: nobody is left to be answered then.
    Milliseconds last_words{0};
    /// Where reasons for closing are told; never the peer's payload.
    std::function<void(std::string_view)> log;
    /// Where mistakes of ours are told, whole, by the number that the peer gets of them. Without it there is none.
    std::function<void(std::string_view)> incident;
  };

  /// `service` must outlive the loop.
  Connection(Executor executor, std::unique_ptr<Transport> transport, Service& service, Options options);
  ~Connection();

  /// Serves until the end. End of input is a half-close: what was read is answered and flushed first. It returns at
  /// once when the peer can no longer read, after close(), and on a broken stream. No call is cancelled by any of this.
  Task<> run();

  /// Sends a notification. Dropped silently once closed. Never waits; see unsent_bytes().
  void notify(std::string_view method, const nlohmann::json& params);
  /// Sends a request and waits for its answer. Throws the peer's error as it came, HostLost when the stream ends, or
  /// LimitExceeded `frameBytes` for a request that the peer would not read, HostProtocol for an answer that is none.
  /// A wish to `cancel` is passed on, and the answer waited for: it says what became of the request.
  Task<nlohmann::json> call(std::string method, nlohmann::json params, Cancel* cancel = nullptr);
  /// As call(), with the result as the peer wrote it.
  Task<std::string> call_for_text(std::string method, nlohmann::json params, Cancel* cancel);
  /// Most of what comes in goes on to `other`: nothing more is read while that one's peer has much left to take.
  void follow(std::shared_ptr<Connection> other) { onward_ = std::move(other); }
  /// From now on frames of data may go both ways, where messages have headers: both sides have announced it.
  void allow_data();
  [[nodiscard]] bool data_allowed() const { return decoder_.data_allowed(); }
  /// Sends bytes of a stream of the peer's or ours. Dropped silently once closed. Never waits; see unsent_bytes().
  void send_data(std::uint64_t stream, std::string_view bytes);
  /// Ends the connection: no more input; what is already queued is still written if the peer takes it at once.
  void close(std::string_view reason);

  /// No answer can reach the peer any more: `connection` sessions, attachments and names of this peer end now.
  [[nodiscard]] bool is_closed() const { return closed_; }
  /// Notified when is_closed() becomes true.
  Event& closed() { return closed_event_; }
  [[nodiscard]] const std::string& close_reason() const { return close_reason_; }
  /// We closed it: what could not be read may have been an answer that was waited for.
  [[nodiscard]] bool lost_an_answer() const { return lost_an_answer_; }
  /// The peer has said its last, and is owed what is in flight.
  [[nodiscard]] bool is_half_closed() const { return input_ended_; }
  /// Notified when is_half_closed() becomes true.
  Event& half_closed() { return half_closed_event_; }

  Lifecycle& lifecycle() { return lifecycle_; }
  [[nodiscard]] bool admits(std::string_view token) const { return options_.admits && options_.admits(token); }
  /// Tells it from every other connection there is or was.
  [[nodiscard]] std::uint64_t number() const { return options_.number; }
  /// What the peer calls itself; not to be trusted.
  [[nodiscard]] const std::string& peer_name() const { return peer_name_; }
  void set_peer_name(std::string name) { peer_name_ = std::move(name); }
  /// Whether the peer can ask a person.
  [[nodiscard]] bool peer_prompts() const { return peer_prompts_; }
  void set_peer_prompts(bool prompts) { peer_prompts_ = prompts; }
  /// Whether anything came from the peer since this was last asked.
  [[nodiscard]] bool heard() { return std::exchange(heard_, false); }
  [[nodiscard]] const Limits& limits() const { return options_.limits; }
  [[nodiscard]] Executor executor() const { return executor_; }
  [[nodiscard]] std::size_t in_flight() const { return calls_.size(); }
  /// Output the peer has not taken yet. A stream of notifications waits for drained() while this is large.
  [[nodiscard]] std::size_t unsent_bytes() const { return output_.size() - sent_; }
  /// Notified whenever unsent output has been written.
  Event& drained() { return drained_; }
  /// Tells where Options::log does.
  void log(const std::string& line) const;

 private:
  struct Outgoing;
  using Self = std::shared_ptr<Connection>;  // a task's share: calls and writes outlive run()

  void start(Task<> task);
  Task<> watch_peer(Self self);
  Task<> drain(Self self);
  Task<> serve(std::shared_ptr<Call> call, std::string key, Request request, std::shared_ptr<Batch> batch,
               std::size_t slot);
  Task<std::size_t> read(std::span<char> buffer);
  void take(std::string_view bytes);
  void take_frame(const Frame& frame);
  void take_message(Message message, const std::shared_ptr<Batch>& batch, std::size_t slot);
  void show_out_stranger();
  void take_request(Request request, const std::shared_ptr<Batch>& batch, std::size_t slot);
  void take_notification(Request notification);
  void take_response(Response response);
  void take_cancel(const Request& notification);
  void miss_answers(std::string_view why);
  void answer(const std::shared_ptr<Batch>& batch, std::size_t slot, Answer reply);
  void count_out(const std::shared_ptr<Batch>& batch);
  Answer failure_of(const Call& call, std::string_view method, const std::exception_ptr& escaped);
  void send(std::string_view body);
  [[nodiscard]] bool has_too_much_unsent() const;
  void flush();
  void lose(std::string_view reason);
  void wake_outgoing();

  Executor executor_;
  std::unique_ptr<Transport> transport_;
  Service& service_;
  Options options_;
  Lifecycle lifecycle_;
  FrameDecoder decoder_;
  std::map<std::string, std::shared_ptr<Call>> calls_;  // by the id's value; at most limits.in_flight
  std::map<std::string, Outgoing*> outgoing_;           // by our id; each lives in the frame of a call()
  std::uint64_t next_id_ = 1;
  std::size_t stray_responses_ = 0;
  std::string
      output_;  // bytes before sent_ are written; limits.unsent_bytes, the replies in flight and notify() bound it
  std::size_t sent_ = 0;
  bool corked_ = false;       // replies made while one chunk is taken apart leave in one write
  bool draining_ = false;     // drain() runs and owns the output
  bool input_ended_ = false;  // nothing we ask the peer will be answered any more
  bool closed_ = false;
  bool lost_an_answer_ = false;
  std::string close_reason_;
  std::shared_ptr<Connection> onward_;
  std::string peer_name_;
  bool peer_prompts_ = false;
  bool heard_ = false;
  Event closed_event_;
  Event half_closed_event_;
  Event drained_;
  Event answered_;
};

/// Returns once the connection is closed, or at `deadline`.
Task<> until_closed(std::shared_ptr<Connection> connection, TimePoint deadline = never);

}  // namespace rex::rpc
