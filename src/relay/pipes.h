// Streams of bytes that belong to a client's request: opened where the request executes, read and written where the
// client's own instance asked for them, carried through every instance between. Must not know what the bytes are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "relay/streams.h"
#include "rpc/connection.h"
#include "transports/transport.h"

namespace rex::relay {

/// Tickets are random: who knows one was told it by a request of that very client.
class Pipes : public std::enable_shared_from_this<Pipes> {
 public:
  using Take = std::function<void(std::unique_ptr<Transport> pipe)>;

  /// For as long as it lives, pipes that are opened with it for its client are given to its owner.
  class Ticket {
   public:
    Ticket(std::shared_ptr<Pipes> pipes, std::uint64_t client, Take take);
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    [[nodiscard]] const std::string& text() const { return text_; }

   private:
    std::shared_ptr<Pipes> pipes_;
    std::uint64_t client_;
    std::string text_;
  };

  /// Opens a pipe to whoever gave `client` the ticket, here or instances before this one. Throws HostProtocol where no
  /// streams lead there, and NotPermitted where this instance can tell that there is no such ticket.
  std::unique_ptr<Transport> open(const rpc::Connection& client, const std::string& ticket);

  /// The client's connection is itself a stream of another instance's connection.
  void carried(const rpc::Connection& client, const std::shared_ptr<Streams>& by, std::uint64_t stream);
  void end_of(const rpc::Connection& client);

  /// A neighbour has opened a pipe for `client`, which is on this side of the link. Throws as open() does.
  void pass_on(const std::shared_ptr<rpc::Connection>& client, const nlohmann::json& what,
               std::unique_ptr<Transport> pipe);

 private:
  struct Carrier {
    std::weak_ptr<Streams> streams;
    std::uint64_t stream;
  };
  [[nodiscard]] std::unique_ptr<Transport> open_before(std::uint64_t client, const std::string& ticket) const;

  std::map<std::pair<std::uint64_t, std::string>, Take> expected_;  // by the client's number and the ticket
  std::map<std::uint64_t, Carrier> carriers_;                       // by the client's number
};

/// Carries bytes both ways until both directions have ended, or one has broken, or the client has ended whose they are;
/// then closes both and calls `ended`, if there is one.
void splice(std::shared_ptr<rpc::Connection> client, std::unique_ptr<Transport> one, std::unique_ptr<Transport> other,
            std::function<void()> ended = nullptr);

/// All of `data`, waiting for room. Throws OsError when the other side is gone.
Task<> write_all(Transport& to, std::string_view data);

}  // namespace rex::relay
