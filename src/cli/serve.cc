// `rex-rpc serve --stdio`.
#include <spdlog/spdlog.h>

#include <asio/signal_set.hpp>
#include <csignal>
#include <utility>

#include "cli/commands.h"
#include "cli/server.h"
#include "transports/stdio.h"

namespace rex::cli {

int serve_stdio(shell::Nursery& nursery) {
  Server server(nursery);
  const std::shared_ptr<rpc::Connection> connection =
      server.connect(transports::take_over_stdio(server.loop().get_executor()));
  asio::basic_signal_set<Executor> signals(server.loop().get_executor(), SIGHUP, SIGINT, SIGTERM);
  signals.async_wait([&connection](const std::error_code& error, int number) {
    if (!error) {
      connection->close("signal " + std::to_string(number));
    }
  });
  int exit_code = 0;
  spawn(server.loop().get_executor(), server.serve(connection), [&](std::exception_ptr failure) {
    try {
      if (failure) {
        std::rethrow_exception(failure);
      }
    } catch (const std::exception& error) {
      spdlog::error("{}", error.what());
      exit_code = 1;
    }
    if (connection->close_reason() == methods::exit_reason) {
      exit_code = connection->lifecycle().exit_code();
    }
    signals.cancel();
    server.end();
  });
  server.run();
  return exit_code;
}

}  // namespace rex::cli
