// Many byte streams inside one connection between two instances: each a Transport of its own, with a window of its own.
// Knows frames of data and four notifications ($/stream/…, schema/streams.md), and nothing of what a stream is for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rpc/connection.h"
#include "transports/transport.h"

namespace rex::relay {

/// Bytes of a stream that may be under way or unread at its end; the sender waits for more credit then.
inline constexpr std::size_t stream_window = 1u << 20;
/// Streams of one connection.
inline constexpr std::size_t max_streams = 1000;

/// Passive: whoever serves the connection hands it what arrives. All streams end with the connection.
class Streams : public std::enable_shared_from_this<Streams> {
 public:
  /// Told of each stream that the peer opens, with the params of its `$/stream/open`. What throws refuses the stream.
  using Opened = std::function<void(const nlohmann::json& what, std::unique_ptr<Transport> stream)>;

  /// `dialled`: we are the side that dialled, whose streams have odd numbers. The connection must outlive this.
  Streams(rpc::Connection& connection, bool dialled, Opened opened)
      : connection_(connection), next_(dialled ? 1 : 2), opened_(std::move(opened)) {}
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// Opens a stream; `what` tells the peer what it is for. Throws LimitExceeded.
  /// Puts the stream's number into `*number` where that is wanted.
  std::unique_ptr<Transport> open(nlohmann::json what, std::uint64_t* number = nullptr);
  void data(std::uint64_t id, std::string_view bytes);
  /// True if it was one of ours to take. A peer that breaks the rules of a stream loses the connection.
  bool notification(std::string_view method, const nlohmann::json& params);
  /// The connection has ended, and with it every stream.
  void end();

 private:
  struct Stream;
  class StreamTransport;

  void take_open(const nlohmann::json& params);
  std::unique_ptr<Transport> add(std::uint64_t id);
  void forget(std::uint64_t id);
  [[nodiscard]] bool has_room() const;

  rpc::Connection& connection_;
  std::uint64_t next_;
  std::uint64_t last_taken_ = 0;  // the highest number that the peer has used
  Opened opened_;
  bool ended_ = false;
  std::map<std::uint64_t, std::shared_ptr<Stream>> streams_;
};

}  // namespace rex::relay
