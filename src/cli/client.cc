#include "cli/client.h"

#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/instances.h"
#include "cli/server.h"
#include "transports/unix.h"

namespace rex::cli {

using nlohmann::json;

/// A client serves nobody; it hears.
class ClientSide::Ears : public rpc::Service {
 public:
  Task<json> call(std::string method, json /*params*/, rpc::Call& /*call*/) override {
    throw Error(Fault::MethodNotFound, "a client has no method " + printable(method));
  }

  void notification(std::string method, json params, const std::shared_ptr<rpc::Connection>& /*from*/) override {
    if (hear) {
      hear(method, params);
    }
  }

  std::function<void(const std::string&, const json&)> hear;
};

ClientSide::ClientSide(Executor executor)
    : executor_(executor), ears_(std::make_unique<Ears>()), signals_(executor, SIGHUP, SIGINT, SIGTERM) {
  ::signal(SIGPIPE, SIG_IGN);
  signals_.add(SIGQUIT);
}

ClientSide::~ClientSide() = default;

Client ClientSide::connect(std::unique_ptr<Transport> transport) {
  const auto client =
      std::make_shared<rpc::Connection>(executor_, std::move(transport), *ears_, rpc::Connection::Options{});
  connections_.push_back(client);
  spawn(executor_, client->run());
  return client;
}

void ClientSide::hear(std::function<void(const std::string&, const json&)> hear) { ears_->hear = std::move(hear); }

Task<> ClientSide::run(std::function<Task<int>(ClientSide&)> command, int& code) {
  signals_.async_wait([this](const std::error_code& error, int number) {
    if (!error) {
      signal_ = number;
      for (const Client& client : connections_) {
        client->close("signal");
      }
    }
  });
  try {
    code = co_await command(*this);
  } catch (const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    if (signal_ == 0 && (ours == nullptr || !ours->message().empty())) {
      std::fprintf(stderr, "rex-rpc: %s%s%s\n", ours != nullptr ? std::string(name_of(ours->fault())).c_str() : "",
                   ours != nullptr ? ": " : "", error.what());
    }
    code = 1;
  }
  if (signal_ != 0) {
    code = 128 + signal_;
  }
  ears_->hear = nullptr;
  signals_.cancel();
  for (const Client& client : connections_) {
    client->close("done");
  }
}

namespace {

struct Asked {
  std::optional<json> answer;
  std::exception_ptr failure;
  Event done;
};

Task<> put_answer(std::shared_ptr<Asked> asked, Client client, std::string method, json params) {
  asked->answer = co_await client->call(std::move(method), std::move(params));
}

}  // namespace

Task<json> ask(Client client, std::string method, json params, Milliseconds patience) {
  const auto asked = std::make_shared<Asked>();
  Waiter waiter(client->executor());
  waiter.subscribe(asked->done);
  const TimePoint deadline = Clock::now() + patience;
  spawn(client->executor(), put_answer(asked, client, std::move(method), std::move(params)),
        [asked](std::exception_ptr failure) {
          asked->failure = failure;
          asked->done.notify();
        });
  while (!asked->answer && !asked->failure && Clock::now() < deadline) {
    co_await waiter.until(deadline);
  }
  if (asked->failure) {
    std::rethrow_exception(asked->failure);
  }
  if (!asked->answer) {
    throw Error(Fault::Overloaded, "it does not answer");
  }
  co_return std::move(*asked->answer);
}

namespace {

int with_own_instance(const Where& where, std::function<Task<int>(ClientSide&, Client)> command) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw os_error("cannot make a socket pair", errno);
  }
  Server server(*where.nursery);
  const Executor executor = server.loop().get_executor();
  ClientSide side(executor);
  const Client client = side.connect(transports::over_socket(executor, Fd(ends[0])));
  int code = 1;
  spawn(executor, side.run([&](ClientSide& self) { return command(self, client); }, code));
  spawn(executor, server.serve(server.connect(transports::over_socket(executor, Fd(ends[1])))),
        [&](std::exception_ptr) { server.end(); });
  if (!where.is_private) {
    server.publish();
  }
  server.run();
  return code;
}

}  // namespace

int without_instance(std::function<Task<int>(ClientSide&)> command) {
  Loop loop{1};
  ClientSide side(loop.get_executor());
  int code = 1;
  spawn(loop.get_executor(), side.run(std::move(command), code), [&loop](std::exception_ptr) { loop.stop(); });
  loop.run();
  return code;
}

int with_client(const Where& where, std::function<Task<int>(ClientSide&, Client)> command) {
  if (where.address.empty()) {
    return with_own_instance(where, std::move(command));
  }
  return without_instance([&](ClientSide& side) { return command(side, dial(side, where.address)); });
}

}  // namespace rex::cli
