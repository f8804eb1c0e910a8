// `rex-rpc serve`: on standard input and output, on sockets, or on all of them at once.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/secret.h"
#include "cli/address.h"
#include "cli/commands.h"
#include "cli/server.h"
#include "cli/token.h"
#include "hosts/token.h"
#include "transports/stdio.h"
#include "transports/unix.h"

namespace rex::cli {
namespace {

bool admits(const std::string& token_file, std::string_view token) {
  try {
    return is_same_secret(hosts::read_token(token_file), token);
  } catch (const Error& error) {
    spdlog::warn("nobody can come in by TCP: {}", error.message());
    return false;
  }
}

void say_listening(const std::string& at) { std::fprintf(stderr, "rex-rpc: listening at %s\n", at.c_str()); }

void listen_tcp(Server& server, const transports::TcpAddress& address, const std::string& token_file) {
  ensure_token(token_file);
  auto listener = std::make_shared<transports::TcpListener>(server.loop().get_executor(), address);
  const std::string at = "tcp:" + transports::to_string(listener->address());
  server.listen(std::move(listener), [token_file](std::string_view token) { return admits(token_file, token); });
  say_listening(at + ", for clients with the token in " + printable(token_file));
}

void listen_at(Server& server, const std::string& text, const std::string& token_file) {
  const std::optional<Address> address = parse_address(text);
  if (!address) {
    throw Error(Fault::InvalidParams, "an address is unix:PATH or tcp:127.0.0.1:PORT; with port 0 a free one is taken");
  }
  if (const auto* const tcp = std::get_if<transports::TcpAddress>(&*address)) {
    listen_tcp(server, *tcp, token_file);
  } else {
    const std::string& path = std::get<UnixAddress>(*address).path;
    server.listen(std::make_shared<transports::UnixListener>(server.loop().get_executor(), path));
    say_listening("unix:" + printable(path));
  }
}

/// At all of them or, with what is wrong on standard error, false.
bool listen_at_all(Server& server, const ServeOptions& options) {
  const auto is_tcp = [](const std::string& address) { return address.starts_with("tcp:"); };
  if (!options.token_file.empty() && std::none_of(options.listen.begin(), options.listen.end(), is_tcp)) {
    std::fputs("rex-rpc: --token-file is for --listen tcp:127.0.0.1:PORT; elsewhere the kernel tells who connects\n",
               stderr);
    return false;
  }
  const std::string token_file = options.token_file.empty() ? default_token_file() : options.token_file;
  for (const std::string& address : options.listen) {
    try {
      listen_at(server, address, token_file);
    } catch (const Error& error) {
      std::fprintf(stderr, "rex-rpc: cannot listen at %s: %s\n", printable(address).c_str(), error.message().c_str());
      return false;
    }
  }
  return true;
}

/// Serves the one client on standard input and output; `done` is given the exit code.
void serve_stdio(Server& server, std::shared_ptr<rpc::Connection> connection, std::function<void(int)> done) {
  spawn(server.loop().get_executor(), server.serve(connection),
        [connection, done = std::move(done)](std::exception_ptr failure) {
          int exit_code = 0;
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
          done(exit_code);
        });
}

/// A hang-up says that the client is gone. Whoever tells us to end otherwise lets us answer first, unless it is told
/// again.
void heed(asio::basic_signal_set<Executor>& signals, Server& server, bool was_told) {
  signals.async_wait([&signals, &server, was_told](const std::error_code& error, int number) {
    if (error) {
      return;
    }
    const bool at_once = was_told || number == SIGHUP;
    at_once ? server.end() : server.end_politely();
    heed(signals, server, true);
  });
}

}  // namespace

int serve(shell::Nursery& nursery, const ServeOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  Server server(nursery, options.journal_memory);
  const Executor executor = server.loop().get_executor();
  std::shared_ptr<rpc::Connection> connection;
  if (options.on_stdio) {
    connection = server.connect(transports::take_over_stdio(executor));
  }
  asio::basic_signal_set<Executor> signals(executor, SIGHUP, SIGINT, SIGTERM);
  heed(signals, server, false);
  if (!listen_at_all(server, options)) {  // after the signals: whoever reads that we listen may send one at once
    return 2;
  }
  int exit_code = 0;
  if (connection) {
    serve_stdio(server, connection, [&](int code) {
      exit_code = code;
      signals.cancel();
      server.end();
    });
  }
  if (!options.is_private) {
    server.publish();
  }
  server.run();
  return exit_code;
}

}  // namespace rex::cli
