// The live connection to one neighbour: dialled, greeted, kept alive, and lost. Knows how to greet an instance and how
// to carry a channel to it; must not know who wants one, nor any other method.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "relay/dial.h"
#include "relay/pipes.h"
#include "relay/streams.h"
#include "rpc/connection.h"

namespace rex::relay {

/// Names of a path, and hosts on the way of a request.
inline constexpr std::size_t max_hops = 8;

/// A link that hears nothing for so long asks; it is lost when it has heard nothing three times as long.
inline constexpr Milliseconds default_keep_alive{10'000};

enum class LinkState { connecting, installing, ready, degraded, lost, closed };
std::string_view name_of(LinkState state);

/// One neighbour. Held by shared_ptr: its tasks outlive whoever closes it.
class Link : public std::enable_shared_from_this<Link>, public rpc::Service {
 public:
  /// `pipes` takes what the neighbour opens for the clients that it serves.
  Link(Executor executor, std::string name, Target target, Milliseconds keep_alive, std::shared_ptr<Pipes> pipes);

  /// Dials and greets, once. `via` are the instances that the wish for it came through, ours last. Throws what the
  /// dialer throws, HostProtocol for what is no rex-rpc of this protocol, HostLoop for one of `via`, and
  /// HostUnreachable with phase `handshake`.
  Task<> establish(Dialer dialer, Attempt& attempt, std::vector<std::string> via);

  /// A connection to the far instance for one more client, `upstream`; `service` takes what it says unasked and reads
  /// no faster than that client. `via` are the instances that its requests come through, ours last. Throws HostLoop
  /// when the far instance is one of them or they are too many, and HostLost. A neighbour that shares no streams gives
  /// its only connection, to the first that wants one; then null.
  std::shared_ptr<rpc::Connection> channel(std::shared_ptr<rpc::Service> service,
                                           std::shared_ptr<rpc::Connection> upstream,
                                           const std::vector<std::string>& via);

  /// Ends it and all it carries.
  void close(LinkState state, std::string_view reason);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Target& target() const { return target_; }
  [[nodiscard]] Milliseconds keep_alive() const { return keep_alive_; }
  [[nodiscard]] LinkState state() const { return state_; }
  [[nodiscard]] bool is_up() const { return state_ == LinkState::ready || state_ == LinkState::degraded; }
  /// Whether the dial has come to its end, and why it failed if it did.
  [[nodiscard]] bool is_dialled() const { return dialled_; }
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
  [[nodiscard]] bool is_shared() const { return streams_ != nullptr; }
  /// Why it is not up, in one sentence.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] const std::string& took() const { return took_; }
  [[nodiscard]] const std::string& noise() const { return noise_; }
  /// As the far side announced it: an object, empty before the greeting.
  [[nodiscard]] const nlohmann::json& machine() const { return machine_; }
  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] std::optional<std::int64_t> round_trip_ms() const { return round_trip_ms_; }
  /// Notified when state() or is_dialled() changes.
  Event& changed() { return changed_; }

  Task<rpc::Result> call(std::string method, nlohmann::json params, rpc::Call& call) override;
  void notification(std::string method, nlohmann::json params, const std::shared_ptr<rpc::Connection>& from) override;
  void data(std::uint64_t stream, std::string_view bytes, const std::shared_ptr<rpc::Connection>& from) override;

 private:
  static Task<> serve(std::shared_ptr<Link> self);
  static Task<> look_after(std::shared_ptr<Link> self);
  static Task<> ask(std::shared_ptr<rpc::Connection> connection);
  static Task<> run_channel(std::shared_ptr<Link> self, std::shared_ptr<rpc::Connection> channel,
                            std::shared_ptr<rpc::Service> service, std::uint64_t stream);
  void take_pipe(const nlohmann::json& what, std::unique_ptr<Transport> pipe);
  static Task<> greet_channel(std::shared_ptr<rpc::Connection> channel, nlohmann::json hello);
  Task<> greet(std::vector<std::string> via, std::string token);
  void require_wanted() const;
  [[nodiscard]] bool is_holding_back() const;
  void require_no_loop(const std::vector<std::string>& via) const;
  void set_state(LinkState state);

  Executor executor_;
  std::string name_;
  Target target_;
  Milliseconds keep_alive_;
  LinkState state_ = LinkState::connecting;
  bool dialled_ = false;
  std::optional<Error> failure_;  // of the dial
  std::string reason_;
  std::string took_;
  std::string noise_;
  std::function<std::string()> last_words_;
  nlohmann::json machine_ = nlohmann::json::object();
  std::string version_;
  std::optional<std::int64_t> round_trip_ms_;
  std::shared_ptr<rpc::Connection> connection_;
  std::shared_ptr<Streams> streams_;  // null where the neighbour has not announced them
  std::shared_ptr<Pipes> pipes_;
  std::map<std::uint64_t, std::shared_ptr<rpc::Connection>> clients_;  // ours, by the stream of their channel
  std::weak_ptr<rpc::Service> only_;                                   // of the only channel there is then
  std::weak_ptr<rpc::Connection> only_client_;
  bool only_given_ = false;
  Event changed_;
};

}  // namespace rex::relay
