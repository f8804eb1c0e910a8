// `rex-rpc serve`: on standard input and output, or on a socket.
#include <spdlog/spdlog.h>

#include <asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/server.h"
#include "transports/stdio.h"
#include "transports/unix.h"

namespace rex::cli {

int serve_stdio(shell::Nursery& nursery, ServeOptions options) {
  Server server(nursery, options.journal_memory);
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
  if (!options.is_private) {
    server.publish();
  }
  server.run();
  return exit_code;
}

int serve_listening(shell::Nursery& nursery, const std::string& address, ServeOptions options) {
  constexpr std::string_view scheme = "unix:";
  if (!address.starts_with(scheme) || address.size() == scheme.size()) {
    std::fprintf(stderr, "rex-rpc: cannot listen at %s: the address of a socket is unix:PATH\n",
                 printable(address).c_str());
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  Server server(nursery, options.journal_memory);
  asio::basic_signal_set<Executor> signals(server.loop().get_executor(), SIGHUP, SIGINT, SIGTERM);
  signals.async_wait([&server](const std::error_code& error, int) {
    if (!error) {
      server.end();
    }
  });
  server.listen(
      std::make_shared<transports::UnixListener>(server.loop().get_executor(), address.substr(scheme.size())));
  if (!options.is_private) {
    server.publish();
  }
  server.run();
  return 0;
}

}  // namespace rex::cli
