// One client's share of a link: the connection that carries its requests to a neighbour and brings back what the
// neighbour says unasked. Must not know any method's meaning; reads `host` and `attachment`, and rewrites them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "relay/continuity.h"
#include "relay/link.h"
#include "rpc/connection.h"

namespace rex::relay {

/// Questions that a neighbour may ask for each request that is under way: a dial asks at most so many.
inline constexpr std::size_t max_prompts = 5;

/// Held by its client's list of hosts and by the tasks that serve it. Ends with the client, or with the link.
class Channel : public std::enable_shared_from_this<Channel>, public rpc::Service {
 public:
  /// `name` is the neighbour's, as the client calls it; `number` is of no other channel of this instance.
  Channel(std::shared_ptr<Link> link, std::shared_ptr<rpc::Connection> client, std::string name, std::uint64_t number)
      : link_(std::move(link)), client_(std::move(client)), name_(std::move(name)), number_(number) {}

  /// Throws what Link::channel throws, and HostProtocol for a neighbour that serves one client only and has one.
  void open(const std::vector<std::string>& via);

  /// Sends a request one hop on; `rest` is the path from there. The answer, or the error, is as the client must see it.
  Task<nlohmann::json> forward(std::string method, nlohmann::json params, std::string rest, rpc::Call& call);
  void forward(const std::string& method, nlohmann::json params, const std::string& rest);

  void close();
  [[nodiscard]] bool is_open() const { return connection_ && !connection_->is_closed(); }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] const std::shared_ptr<Link>& link() const { return link_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  Task<nlohmann::json> call(std::string method, nlohmann::json params, rpc::Call& call) override;
  void notification(std::string method, nlohmann::json params, const std::shared_ptr<rpc::Connection>& from) override;

 private:
  class UnderWay;

  [[nodiscard]] Error lost(bool sent) const;

  std::shared_ptr<Link> link_;
  std::shared_ptr<rpc::Connection> client_;
  std::string name_;
  std::uint64_t number_;
  std::shared_ptr<rpc::Connection> connection_;
  std::size_t pending_ = 0;  // requests of the client that have no answer yet
  std::size_t prompts_left_ = 0;
  Continuity continuity_;
};

}  // namespace rex::relay
