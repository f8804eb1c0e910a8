// The neighbours that clients have named: who owns which name, the dialling of each, again when it was lost, and each
// client's channel to it. Must not know how a machine is reached, nor any method but host/prompt and host/status, which
// tell of a dial.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "relay/channel.h"
#include "relay/dial.h"
#include "relay/link.h"
#include "relay/pause.h"
#include "rpc/connection.h"

namespace rex::relay {

class DialAttempt;

/// Names of one client.
inline constexpr std::size_t max_hosts = 256;

struct Known {
  Target target;
  Milliseconds keep_alive = default_keep_alive;
};

/// A name no client can write: that of another process of this machine, whose answers are told as our own.
inline bool is_unnamed(std::string_view name) { return name.starts_with('/'); }

/// A host of the user's own file, which every client may name, or an unnamed one. Throws HostNotFound where the file
/// cannot be read.
using KnownHost = std::function<std::optional<Known>(const std::string& name)>;

/// Owned by the server. A name from `connect` is its client's alone and ends with it; hosts of the file are the user's,
/// and their links are shared. A host that was reached and is lost is dialled again: a client's own until the client
/// lets it go, one of the file while something of the client's streams from there. A machine that the dial made is not:
/// another one would be in its place.
class Hosts {
 public:
  /// `instance` is our own name.
  Hosts(std::string instance, Dialer dialer, KnownHost known, std::shared_ptr<Pipes> pipes);

  /// Reaches a host and gives it a name. The same name and target again is the same link, dialled anew if it was lost;
  /// another target is HostExists. Tells each phase to the client, and as progress where `token` is not null.
  Task<std::shared_ptr<Link>> connect(std::string name, Target target, Milliseconds keep_alive, nlohmann::json token,
                                      rpc::Call& call);
  /// Null for a host of the file that nobody has dialled. Throws HostNotFound.
  std::shared_ptr<Link> find(const rpc::Connection& client, const std::string& name) const;
  /// Behind the names that the client has connected or used.
  [[nodiscard]] std::vector<std::shared_ptr<Link>> list(const rpc::Connection& client) const;
  /// To a host of the file; null where nobody has dialled this target.
  [[nodiscard]] std::shared_ptr<Link> shared(const std::string& name, const Target& target) const;
  /// Ends the link of a client's own name, also one that is being dialled, and forgets the name; of the file, the
  /// client's dial and channel alone. Nothing where there is neither.
  void disconnect(const rpc::Connection& client, const std::string& name);

  /// The client's way to a neighbour; a host of the file is dialled for the call where that is needed. Throws
  /// HostNotFound, HostLost, and what a dial throws.
  Task<std::shared_ptr<Channel>> channel(std::string name, rpc::Call& call);
  /// The channel that an attachment of the client came through; null when there is none any more.
  [[nodiscard]] std::shared_ptr<Channel> channel_of(const rpc::Connection& client, const std::string& attachment) const;
  /// The open channel to a neighbour; null without one.
  [[nodiscard]] std::shared_ptr<Channel> open_channel(const rpc::Connection& client, const std::string& name) const;

  /// A client that is itself a relay's: the instances its requests have come through.
  void came_through(const rpc::Connection& client, std::vector<std::string> via);
  /// The client has ended, and with it all that is its own.
  void end_of(const rpc::Connection& client);
  /// The instance ends, and with it the links of the file, which outlive their clients.
  void end();

 private:
  struct Name {
    std::shared_ptr<Link> link;
    std::shared_ptr<Channel> channel;  // null until it is needed
    bool own = true;                   // not of the file
    bool met = false;                  // it has been reached: it is kept when it is lost
    Pause pause{};                     // before it is dialled again by itself
    std::uint64_t healer = 0;          // the task that does so
  };
  struct Client {
    std::map<std::string, Name> names;  // at most max_hosts
    std::vector<std::string> via;
    // Under way; one may outlive us.
    std::shared_ptr<std::vector<DialAttempt*>> attempts = std::make_shared<std::vector<DialAttempt*>>();
  };

  Task<> dial(std::shared_ptr<Link> link, std::string name, nlohmann::json token, rpc::Call& call,
              bool unasked = false);
  Task<> await_dial(std::shared_ptr<Link> link, rpc::Call& call);
  Task<std::shared_ptr<Link>> link_of_file(std::string name, rpc::Call& call, bool unasked = false);
  Task<> dial_again(std::string name, rpc::Call& call, bool unasked = false);
  void reached(const std::string& name, const std::shared_ptr<rpc::Connection>& client);
  Name* find_name(std::uint64_t client, const std::string& name);
  static bool heals(const std::string& name, const Name& entry);
  std::optional<Known> known(const std::string& name) const;
  std::shared_ptr<Link> own_link(std::uint64_t client, const std::string& name) const;
  void forget(std::uint64_t client);
  void forget_ended(std::uint64_t client);
  Task<> follow(std::shared_ptr<Link> link, std::string name, std::shared_ptr<rpc::Connection> client);
  Task<> heal(std::string name, std::shared_ptr<rpc::Connection> client);
  std::vector<std::string> came_through(const Client& client) const;
  void leave(const std::string& name, const Name& entry, std::string_view reason);
  void release(const std::string& name, const std::shared_ptr<Link>& link);
  void open(Client& of, Name& name, const std::string& called, const std::shared_ptr<rpc::Connection>& client);

  std::string instance_;
  Dialer dialer_;
  KnownHost known_;
  std::shared_ptr<Pipes> pipes_;
  std::map<std::uint64_t, Client> clients_;              // by the connection's number
  std::map<std::string, std::shared_ptr<Link>> shared_;  // of the file
  std::uint64_t next_channel_ = 1;
  std::uint64_t next_healer_ = 1;
};

}  // namespace rex::relay
