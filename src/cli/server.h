// One instance: the loop, what it serves, and one connection on a transport. The only place that ties the rooms
// together; used by `serve`, and in-process by `call` and `run`.
#pragma once

#include <memory>
#include <string_view>

#include "base/async.h"
#include "methods/methods.h"
#include "relay/router.h"
#include "rpc/connection.h"
#include "transports/transport.h"

namespace rex::cli {

class Server {
 public:
  explicit Server(shell::Nursery& nursery);

  Loop& loop() { return loop_; }
  rpc::Service& service() { return router_; }

  /// Makes a connection that this instance serves. Its sessions are `connection` sessions of its own.
  std::shared_ptr<rpc::Connection> connect(std::unique_ptr<Transport> transport);

  /// Serves the connection to its end, then ends what belonged to it.
  Task<> serve(std::shared_ptr<rpc::Connection> connection);

  /// Runs the loop until `end` is called, then lets what is already ending come to its end.
  void run();
  void end() { loop_.stop(); }

 private:
  Loop loop_{1};
  shell::Sessions sessions_;
  rpc::MethodTable table_;
  relay::Router router_;
  Workers workers_;  // after the loop: what still runs in a worker is waited for before the loop's tasks are destroyed
};

}  // namespace rex::cli
