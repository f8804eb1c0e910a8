// Decides where a request executes: here, or one hop further. Reads only params.host; must not know session methods.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "relay/hosts.h"
#include "relay/streams.h"
#include "rpc/connection.h"
#include "rpc/method_table.h"

namespace rex::relay {

inline constexpr std::size_t max_host_name_bytes = 255;

/// A path of host names, split after its first: "bastion/build7" is {"bastion", "build7"}, "" is {"", ""}.
struct HostPath {
  std::string first;
  std::string rest;
};

/// One name of a path, as `host_name_rule` says.
bool is_host_name(std::string_view name);
inline constexpr std::string_view host_name_rule =
    "letters, digits and . _ - + @ : only, a letter, a digit or _ first, at most 255";

/// Throws InvalidParams naming `host` for a name that no host can have, HostLoop for more than max_hops names.
HostPath parse_host(std::string_view path);

/// Serves a client that comes over a stream of another instance's connection; gives its number.
using ServeStream = std::function<std::shared_ptr<rpc::Connection>(std::unique_ptr<Transport> stream)>;

/// What this machine answers although no host is named and this instance has it not: another process does.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  /// Whether a request may be one of those; asked of each that names no host.
  [[nodiscard]] virtual bool concerns(std::string_view method, const nlohmann::json& params) const = 0;
  struct Place {
    std::string host;  // as Hosts knows it; empty for here
    nlohmann::json params;
    /// What is told where that process ends with the request in its hands; nullopt: that it has ended.
    std::optional<Error> when_ended = std::nullopt;
  };
  /// Who answers a request that is concerned. Throws what the request would.
  virtual Task<Place> find(std::string method, nlohmann::json params) = 0;
};

/// The Service behind every connection: answers here, or hands the same request one hop further.
class Router : public rpc::Service {
 public:
  /// What is passed by reference must outlive the router.
  Router(const rpc::MethodTable& local, Hosts& hosts, std::shared_ptr<Pipes> pipes, ServeStream serve,
         Elsewhere* elsewhere = nullptr)
      : local_(local), hosts_(hosts), pipes_(std::move(pipes)), serve_(std::move(serve)), elsewhere_(elsewhere) {}

  Task<rpc::Result> call(std::string method, nlohmann::json params, rpc::Call& call) override;
  void notification(std::string method, nlohmann::json params, const std::shared_ptr<rpc::Connection>& from) override;
  void data(std::uint64_t stream, std::string_view bytes, const std::shared_ptr<rpc::Connection>& from) override;
  /// The connection has ended, and with it its streams.
  void end_of(const rpc::Connection& connection);
  /// The instance ends.
  void end() { hosts_.end(); }

 private:
  Task<rpc::Result> forward(std::string method, nlohmann::json params, HostPath host, rpc::Call& call);
  Task<rpc::Result> call_elsewhere(std::string method, nlohmann::json params, rpc::Call& call);
  std::shared_ptr<Channel> channel_of_attachment(const nlohmann::json& params, const rpc::Connection& client) const;
  std::shared_ptr<Streams> streams_of(const std::shared_ptr<rpc::Connection>& connection);
  void accept(const std::shared_ptr<Streams>& by, const nlohmann::json& what, std::unique_ptr<Transport> stream);

  const rpc::MethodTable& local_;
  Hosts& hosts_;
  std::shared_ptr<Pipes> pipes_;
  ServeStream serve_;
  Elsewhere* elsewhere_;
  std::map<std::uint64_t, std::shared_ptr<Streams>>
      streams_;  // that peers have opened to us, by the connection's number
};

}  // namespace rex::relay
