#include "cli/server.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

namespace rex::cli {
namespace {

// A client that is gone waits for nobody: its sessions get this long to end by themselves before they are killed.
constexpr Milliseconds farewell{300};

// What tasks of closed sessions may need to notice. Nothing is lost if they do not.
constexpr Milliseconds last_turns{100};

}  // namespace

Server::Server(shell::Nursery& nursery)
    : sessions_(loop_.get_executor(), nursery, workers_), router_(table_), workers_(loop_.get_executor()) {
  methods::bind_all(table_, loop_.get_executor(), nursery, sessions_, workers_);
}

std::shared_ptr<rpc::Connection> Server::connect(std::unique_ptr<Transport> transport) {
  rpc::Connection::Options options;
  options.log = [](std::string_view line) { spdlog::info("{}", line); };
  return std::make_shared<rpc::Connection>(loop_.get_executor(), std::move(transport), router_, std::move(options));
}

void Server::run() {
  loop_.run();
  loop_.restart();
  loop_.run_for(last_turns);
}

Task<> Server::serve(std::shared_ptr<rpc::Connection> connection) {
  co_await connection->run();
  co_await sessions_.close_all_of(methods::owner_of(*connection), farewell);
}

}  // namespace rex::cli
