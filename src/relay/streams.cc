#include "relay/streams.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/error.h"
#include "relay/inbox.h"
#include "relay/names.h"

namespace rex::relay {

using nlohmann::json;

namespace {

// A piece goes out while no more than this waits before it: a ping or a cancel is never behind more.
constexpr std::size_t max_ahead = 128u << 10;
constexpr std::size_t piece_bytes = 32u << 10;

constexpr std::string_view open_name = "$/stream/open";
constexpr std::string_view credit_name = "$/stream/credit";
constexpr std::string_view end_name = "$/stream/end";
constexpr std::string_view reset_name = "$/stream/reset";

std::uint64_t number_of(const json& params, const char* member) {
  const std::optional<std::int64_t> number = natural(params, member);
  if (!number) {
    throw Error(Fault::HostProtocol, std::string("a stream's notification without ") + member);
  }
  return static_cast<std::uint64_t>(*number);
}

}  // namespace

struct Streams::Stream {
  Inbox inbox;           // at most stream_window
  std::size_t owed = 0;  // credit for what was read, not given back yet
  std::size_t credit = stream_window;
  bool input_ended = false;   // by the peer
  bool output_ended = false;  // by us
  bool over = false;          // reset by the peer, or the connection has ended
  bool closed = false;        // by its owner
  Event changed;
};

/// One end of one stream. May outlive the connection.
class Streams::StreamTransport : public Transport {
 public:
  StreamTransport(std::weak_ptr<Streams> streams, std::uint64_t id, std::shared_ptr<Stream> stream, Executor executor)
      : streams_(std::move(streams)), id_(id), stream_(std::move(stream)), executor_(executor) {}
  ~StreamTransport() override { StreamTransport::close(); }

  Task<std::size_t> read_some(std::span<char> buffer) override {
    const std::shared_ptr<Stream> stream = stream_;
    const std::weak_ptr<Streams> streams = streams_;
    const std::uint64_t id = id_;
    Waiter waiter(executor_);
    waiter.subscribe(stream->changed);
    while (stream->inbox.empty() && !stream->input_ended && !stream->over && !stream->closed) {
      co_await waiter.until(never);
    }
    const std::size_t n = stream->closed ? 0 : stream->inbox.take(buffer);
    if (n > 0) {
      if (stream->inbox.empty() && stream->over) {
        stream->changed.notify();  // gone() waits for what was still to be read
      }
      give_back(streams, *stream, id, n);
    }
    co_return n;
  }

  std::size_t try_write(std::string_view data) override {
    const std::shared_ptr<Streams> streams = streams_.lock();
    if (!streams || stream_->over || stream_->closed) {
      throw os_error("cannot write to a stream that has ended", EPIPE);
    }
    std::size_t written = 0;
    while (written < data.size() && stream_->credit > 0 && streams->has_room()) {
      const std::size_t n = std::min({data.size() - written, stream_->credit, piece_bytes});
      stream_->credit -= n;
      streams->connection_.send_data(id_, data.substr(written, n));
      written += n;
    }
    return written;
  }

  Task<> writable() override {
    const std::shared_ptr<Stream> stream = stream_;
    Waiter waiter(executor_);
    waiter.subscribe(stream->changed);
    if (const std::shared_ptr<Streams> streams = streams_.lock()) {
      waiter.subscribe(streams->connection_.drained());
    }
    while (!stream->over && !stream->closed) {
      if (const std::shared_ptr<Streams> streams = streams_.lock();
          !streams || (stream->credit > 0 && streams->has_room())) {
        break;
      }
      co_await waiter.until(never);
    }
  }

  Task<bool> gone() override {
    const std::shared_ptr<Stream> stream = stream_;
    Waiter waiter(executor_);
    waiter.subscribe(stream->changed);
    while (!stream->closed && (!stream->over || !stream->inbox.empty())) {
      co_await waiter.until(never);
    }
    co_return stream->over && !stream->closed;
  }

  void close() override {
    if (std::exchange(stream_->closed, true)) {
      return;
    }
    const std::shared_ptr<Streams> streams = streams_.lock();
    if (streams && !stream_->over) {
      streams->connection_.notify(reset_name, json{{"stream", id_}});
    }
    if (streams) {
      streams->forget(id_);
    }
    stream_->changed.notify();
  }

  void end_output() override {
    const std::shared_ptr<Streams> streams = streams_.lock();
    if (streams && !stream_->over && !stream_->closed && !std::exchange(stream_->output_ended, true)) {
      streams->connection_.notify(end_name, json{{"stream", id_}});
    }
  }

 private:
  static void give_back(const std::weak_ptr<Streams>& to, Stream& stream, std::uint64_t id, std::size_t bytes) {
    stream.owed += bytes;
    const std::shared_ptr<Streams> streams = to.lock();
    if (streams && !stream.over && stream.owed >= stream_window / 4) {
      streams->connection_.notify(credit_name, json{{"stream", id}, {"bytes", std::exchange(stream.owed, 0)}});
    }
  }

  std::weak_ptr<Streams> streams_;
  std::uint64_t id_;
  std::shared_ptr<Stream> stream_;
  Executor executor_;
};

Streams::~Streams() { end(); }

void Streams::end() {
  ended_ = true;
  for (const auto& [id, stream] : std::exchange(streams_, {})) {
    stream->over = true;
    stream->changed.notify();
  }
}

bool Streams::has_room() const { return connection_.unsent_bytes() <= max_ahead; }

std::unique_ptr<Transport> Streams::add(std::uint64_t id) {
  const auto stream = std::make_shared<Stream>();
  streams_.emplace(id, stream);
  return std::make_unique<StreamTransport>(weak_from_this(), id, stream, connection_.executor());
}

void Streams::forget(std::uint64_t id) { streams_.erase(id); }

std::unique_ptr<Transport> Streams::open(json what, std::uint64_t* number) {
  if (ended_ || connection_.is_closed()) {
    throw Error(Fault::HostLost, "the connection has ended");
  }
  if (streams_.size() >= max_streams) {
    throw limit_exceeded("streams", static_cast<std::int64_t>(streams_.size()) + 1, max_streams);
  }
  const std::uint64_t id = std::exchange(next_, next_ + 2);
  what["stream"] = id;
  if (number != nullptr) {
    *number = id;
  }
  connection_.notify(open_name, what);
  return add(id);
}

void Streams::take_open(const json& params) {
  const std::uint64_t id = number_of(params, "stream");
  // What is still under way to a stream that has ended must not reach another.
  if (id % 2 == next_ % 2 || id <= last_taken_) {
    throw Error(Fault::HostProtocol, "a stream opened with a number that is not free");
  }
  last_taken_ = id;
  if (streams_.size() >= max_streams) {
    connection_.notify(reset_name, json{{"stream", id}, {"reason", "too many streams"}});
    return;
  }
  std::unique_ptr<Transport> stream = add(id);
  try {
    opened_(params, std::move(stream));
  } catch (const Error& error) {
    // Its destruction has reset it; the reason is of use to whoever reads the log of the peer.
    connection_.notify(reset_name, json{{"stream", id}, {"reason", printable(error.message())}});
  }
}

void Streams::data(std::uint64_t id, std::string_view bytes) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) {
    return;  // it was under way when we closed the stream
  }
  Stream& stream = *found->second;
  if (stream.inbox.size() + stream.owed + bytes.size() > stream_window || stream.input_ended) {
    connection_.close("the peer sent more into a stream than it may");
    return;
  }
  stream.inbox.append(bytes);
  stream.changed.notify();
}

bool Streams::notification(std::string_view method, const json& params) {
  if (!method.starts_with("$/stream/") || !params.is_object()) {
    return false;
  }
  try {
    if (method == open_name) {
      take_open(params);
      return true;
    }
    const auto found = streams_.find(number_of(params, "stream"));
    if (found == streams_.end()) {
      return true;
    }
    const std::shared_ptr<Stream> stream = found->second;
    if (method == credit_name) {
      const std::uint64_t bytes = number_of(params, "bytes");
      if (bytes > stream_window - stream->credit) {
        throw Error(Fault::HostProtocol, "more credit than was used");
      }
      stream->credit += bytes;
    } else if (method == end_name) {
      stream->input_ended = true;
    } else if (method == reset_name) {
      stream->over = true;
      streams_.erase(found);
    }
    stream->changed.notify();
  } catch (const Error& error) {
    connection_.close(error.message());
  }
  return true;
}

}  // namespace rex::relay
