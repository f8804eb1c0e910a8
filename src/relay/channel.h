// One client's share of a host: the connection that carries its requests to a neighbour and brings back what the
// neighbour says unasked. When the link is lost and there anew, it goes on where it was. Must not know any method's
// meaning but what holdings.h says; reads `host` and `attachment`, and rewrites them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "relay/continuity.h"
#include "relay/holdings.h"
#include "relay/link.h"
#include "rpc/connection.h"

namespace rex::relay {

/// Questions that a neighbour may ask for each request that is under way: a dial asks at most so many.
inline constexpr std::size_t max_prompts = 5;

/// A process of this machine has ended before it answered; else it is its answer that one is told.
class ProcessEnded : public Error {
 public:
  explicit ProcessEnded(Error error) : Error(std::move(error)) {}
};

/// Held by its client's list of hosts and by the tasks that serve it. Ends with the client.
class Channel : public std::enable_shared_from_this<Channel>, public rpc::Service {
 public:
  /// `name` is the neighbour's, as the client calls it; empty for a process of this machine, whose end is an end.
  Channel(std::shared_ptr<rpc::Connection> client, std::string name)
      : client_(std::move(client)), name_(std::move(name)) {}

  /// Over a link that is up; over another one when the one before was lost, and then all that the client has there is
  /// asked for again. `number` is of no other channel of this instance, nor of this one before. Throws what
  /// Link::channel throws, and HostProtocol for a neighbour that serves one client only and has one.
  void open(std::shared_ptr<Link> link, std::uint64_t number, const std::vector<std::string>& via);

  /// Sends a request one hop on; `rest` is the path from there. The answer, or the error, is as the client must see it.
  /// One for a host that is being reached again waits for that, and throws HostLost where it does not come to be.
  Task<rpc::Result> forward(std::string method, nlohmann::json params, std::string rest, rpc::Call& call);
  void forward(const std::string& method, nlohmann::json params, const std::string& rest);

  void close();
  /// Its link is not had again: each stream that the client has there is told to have ended, once.
  void give_up(const Error& why);
  [[nodiscard]] bool is_open() const { return connection_ && !connection_->is_closed(); }
  /// Whether an attachment's id, as the client knows it, came through here.
  [[nodiscard]] bool knows(const std::string& attachment) const;
  /// Whether the client has something there that goes on when the link is there anew.
  [[nodiscard]] bool holds() const { return !holdings_.is_empty(); }
  [[nodiscard]] const std::shared_ptr<Link>& link() const { return link_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  Task<rpc::Result> call(std::string method, nlohmann::json params, rpc::Call& call) override;
  void notification(std::string method, nlohmann::json params, const std::shared_ptr<rpc::Connection>& from) override;

 private:
  class UnderWay;

  using Self = std::shared_ptr<Channel>;

  [[nodiscard]] Error lost(const Link& link, bool sent) const;
  [[nodiscard]] std::string far_id(const std::string& attachment) const;
  Task<> reach(std::string rest, rpc::Call& call);
  void keep(const std::string& method, const std::string& rest, nlohmann::json params, const nlohmann::json& result);
  void deliver(const std::string& method, nlohmann::json params, std::uint64_t number);
  void break_off(const std::string& why);
  void tell_ended(const std::string& attachment, const std::string& host, const Error& why);
  static Task<> watch(Self self, std::shared_ptr<rpc::Connection> connection);
  static Task<> restore(Self self, std::shared_ptr<rpc::Connection> connection);
  struct Round;
  void begin_names(const std::shared_ptr<Round>& round, const std::shared_ptr<rpc::Connection>& connection);
  Task<bool> restore_names(std::shared_ptr<rpc::Connection> connection);
  static Task<> restore_name(Self self, Holdings::Name name, std::shared_ptr<rpc::Connection> connection);
  Task<bool> restore_streams(std::shared_ptr<rpc::Connection> connection);
  Task<bool> resume(std::string attachment, std::shared_ptr<rpc::Connection> connection);

  std::shared_ptr<Link> link_;  // the newest; null before the first
  std::shared_ptr<rpc::Connection> client_;
  std::string name_;
  std::uint64_t number_ = 0;
  std::shared_ptr<rpc::Connection> connection_;
  std::size_t pending_ = 0;  // requests of the client that have no answer yet
  std::size_t prompts_left_ = 0;
  std::size_t opening_ = 0;                // of those, the requests that make a stream
  std::multiset<std::string> connecting_;  // the paths of its host/connect under way
  Continuity continuity_;
  Holdings holdings_;
  Event reached_;  // a name that is to be had again is, or is not
};

}  // namespace rex::relay
