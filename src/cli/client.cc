#include "cli/client.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "transports/stdio.h"

namespace rex::cli {
namespace {

/// A client serves nobody.
class NoService : public rpc::Service {
 public:
  Task<nlohmann::json> call(std::string method, nlohmann::json /*params*/, rpc::Call& /*call*/) override {
    throw Error(Fault::MethodNotFound, "a client has no method " + printable(method));
  }

  void notification(std::string /*method*/, nlohmann::json /*params*/,
                    const std::shared_ptr<rpc::Connection>& /*from*/) override {}
};

std::unique_ptr<Transport> over_socket(Executor executor, Fd socket) {
  Fd copy(fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy) {
    throw os_error("cannot copy a socket", errno);
  }
  return transports::over_descriptors(executor, std::move(socket), std::move(copy));
}

Task<> run_task(std::function<Task<int>(Client)> task, Client client, int& code, const int& signal) {
  try {
    code = co_await task(client);
  } catch (const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    if (signal == 0 && (ours == nullptr || !ours->message().empty())) {
      std::fprintf(stderr, "rex-rpc: %s%s%s\n", ours != nullptr ? std::string(name_of(ours->fault())).c_str() : "",
                   ours != nullptr ? ": " : "", error.what());
    }
    code = 1;
  }
  if (signal != 0) {
    code = 128 + signal;
  }
  client->close("done");
}

}  // namespace

int with_client(shell::Nursery& nursery, std::function<Task<int>(Client)> task) {
  ::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw os_error("cannot make a socket pair", errno);
  }
  Server server(nursery);
  const Executor executor = server.loop().get_executor();
  NoService nothing;
  const auto connection = std::make_shared<rpc::Connection>(executor, over_socket(executor, Fd(ends[0])), nothing,
                                                            rpc::Connection::Options{});
  int code = 1;
  int signal = 0;
  asio::basic_signal_set<Executor> signals(executor, SIGHUP, SIGINT, SIGTERM);
  signals.async_wait([&](const std::error_code& error, int number) {
    if (!error) {
      signal = number;
      connection->close("signal");
    }
  });
  spawn(executor, connection->run());
  spawn(executor, run_task(std::move(task), connection, code, signal));
  spawn(executor, server.serve(server.connect(over_socket(executor, Fd(ends[1])))), [&](std::exception_ptr) {
    signals.cancel();
    server.end();
  });
  server.run();
  return code;
}

}  // namespace rex::cli
