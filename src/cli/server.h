// One instance: the loop, what it serves, the clients it serves, and how others of its user find it. The only place
// that ties the rooms together; used by `serve`, and in-process by `call` and `run`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "cli/spawner.h"
#include "cli/strangers.h"
#include "methods/hosts_file.h"
#include "methods/keepers.h"
#include "methods/key_store.h"
#include "methods/keys.h"
#include "methods/methods.h"
#include "relay/router.h"
#include "rpc/connection.h"
#include "transports/listener.h"

namespace rex::cli {

/// Known clients on sockets that one instance serves at a time.
inline constexpr std::size_t max_clients = 256;

class Server {
 public:
  /// `keeps`: this is the process of a daemon session, which looks for no others.
  explicit Server(shell::Nursery& nursery, std::size_t journal_memory = shell::default_journal_memory,
                  bool keeps = false);

  Loop& loop() { return loop_; }
  shell::Sessions& sessions() { return sessions_; }
  rpc::Service& service() { return router_; }
  /// Tells it from every other instance on this machine: its process id, and something of when it began.
  [[nodiscard]] const std::string& instance() const { return instance_; }

  /// Makes a connection that this instance serves. Its sessions are `connection` sessions of its own.
  std::shared_ptr<rpc::Connection> connect(std::unique_ptr<Transport> transport, rpc::Connection::Options options = {});

  /// Serves the connection to its end, then ends what belonged to it.
  Task<> serve(std::shared_ptr<rpc::Connection> connection);

  /// Tells the right token from others, wherever a listener does not vouch for its clients.
  using Admits = std::function<bool(std::string_view token)>;
  /// Serves whoever connects to the listener, until the end.
  void listen(std::shared_ptr<transports::Listener> listener, Admits admits = nullptr);
  /// Lets this user's other programs find the instance by a socket in the runtime directory, once it has had the time
  /// to answer its first requests. Where that cannot be done the instance does without, and logs why.
  void publish();

  /// Runs the loop until `end` is called, then lets what is already ending come to its end.
  void run();
  /// Ends all clients with what belongs to them, and then the loop.
  void end();
  /// The same once what was asked is answered, or two seconds have passed; takes nothing more meanwhile.
  void end_politely();

  [[nodiscard]] bool has_clients() const { return !clients_.empty(); }
  /// Whether a client waits for an answer, or has not taken all of one.
  [[nodiscard]] bool owes_answers() const;
  /// Until it owes none, or `deadline`.
  Task<> until_answered(TimePoint deadline);
  /// Notified when a client has left.
  Event& changed() { return changed_; }

 private:
  Task<> accept_clients(std::shared_ptr<transports::Listener> listener, Admits admits);
  [[nodiscard]] bool is_full() const;
  void tell_incident(std::string line);
  /// One client of many: what goes wrong with it is logged and ends it alone.
  void serve_beside(const std::shared_ptr<rpc::Connection>& client);
  std::shared_ptr<rpc::Connection> serve_stream(std::unique_ptr<Transport> stream);
  Task<> publish_soon();
  Task<> end_clients();
  Task<> end_after_answers();

  Loop loop_{1};
  std::string instance_;
  shell::Sessions sessions_;
  methods::Keys keys_;
  methods::KeyStore key_store_;
  rpc::MethodTable table_;
  std::shared_ptr<relay::Pipes> pipes_ = std::make_shared<relay::Pipes>();
  methods::HostsFile hosts_file_;
  Started started_;  // programs that lead to other machines
  relay::Hosts hosts_;
  std::unique_ptr<methods::Keepers> keepers_;  // null in one
  relay::Router router_;
  Workers workers_;  // after the loop: what still runs in a worker is waited for before the loop's tasks are destroyed
  std::map<std::uint64_t, std::shared_ptr<rpc::Connection>> clients_;  // those being served, by their number
  std::vector<std::shared_ptr<transports::Listener>> listeners_;
  Strangers strangers_;
  std::uint64_t next_client_ = 1;
  bool ending_ = false;
  Event changed_;  // a client has left, or the end has come
};

}  // namespace rex::cli
