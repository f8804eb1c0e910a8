// One instance: the loop, what it serves, the clients it serves, and how others of its user find it. The only place
// that ties the rooms together; used by `serve`, and in-process by `call` and `run`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "methods/methods.h"
#include "relay/router.h"
#include "rpc/connection.h"
#include "transports/unix.h"

namespace rex::cli {

/// Clients on sockets that one instance serves at a time.
inline constexpr std::size_t max_clients = 256;

class Server {
 public:
  explicit Server(shell::Nursery& nursery, std::size_t journal_memory = shell::default_journal_memory);

  Loop& loop() { return loop_; }
  rpc::Service& service() { return router_; }
  /// Tells it from every other instance on this machine: its process id, and something of when it began.
  [[nodiscard]] const std::string& instance() const { return instance_; }

  /// Makes a connection that this instance serves. Its sessions are `connection` sessions of its own.
  std::shared_ptr<rpc::Connection> connect(std::unique_ptr<Transport> transport);

  /// Serves the connection to its end, then ends what belonged to it.
  Task<> serve(std::shared_ptr<rpc::Connection> connection);

  /// Serves whoever connects to the listener, until the end.
  void listen(std::shared_ptr<transports::UnixListener> listener);
  /// Lets this user's other programs find the instance by a socket in the runtime directory, once it has had the time
  /// to answer its first requests. Where that cannot be done the instance does without, and logs why.
  void publish();

  /// Runs the loop until `end` is called, then lets what is already ending come to its end.
  void run();
  /// Ends all clients with what belongs to them, and then the loop.
  void end();

 private:
  Task<> accept_clients(std::shared_ptr<transports::UnixListener> listener);
  Task<> publish_soon();
  Task<> end_clients();

  Loop loop_{1};
  std::string instance_;
  shell::Sessions sessions_;
  rpc::MethodTable table_;
  relay::Router router_;
  Workers workers_;  // after the loop: what still runs in a worker is waited for before the loop's tasks are destroyed
  std::map<std::uint64_t, std::shared_ptr<rpc::Connection>> clients_;  // those being served, by their number
  std::vector<std::shared_ptr<transports::UnixListener>> listeners_;
  std::uint64_t next_client_ = 1;
  bool ending_ = false;
  Event changed_;  // a client has left, or the end has come
};

}  // namespace rex::cli
