#include "cli/client.h"

#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/instances.h"
#include "cli/prompt.h"
#include "cli/server.h"
#include "transports/unix.h"

namespace rex::cli {

using nlohmann::json;

/// A client serves nobody; it hears, and asks the person in front of it.
class ClientSide::Ears : public rpc::Service {
 public:
  Task<rpc::Result> call(std::string method, json params, rpc::Call& call) override {
    if (method == "host/prompt") {
      Cancel wish;
      const auto give_up = [&wish] { wish.request(Cancel::Wish::stop_work); };
      const Cancel::Listener withdrawn(call.cancel(), give_up);
      const Cancel::Listener over(ended, give_up);
      co_return co_await ask_person(call.connection()->executor(), std::move(params), wish);
    }
    throw Error(Fault::MethodNotFound, "a client has no method " + printable(method));
  }

  void notification(std::string method, json params, const std::shared_ptr<rpc::Connection>& /*from*/) override {
    if (hear) {
      hear(method, params);
    }
  }

  std::function<void(const std::string&, const json&)> hear;
  Cancel ended;  // no question is put to the person any more
};

ClientSide::ClientSide(Executor executor)
    : executor_(executor), ears_(std::make_unique<Ears>()), signals_(executor, SIGHUP, SIGINT, SIGTERM) {
  ::signal(SIGPIPE, SIG_IGN);
  signals_.add(SIGQUIT);
}

ClientSide::~ClientSide() = default;

Client ClientSide::connect(std::unique_ptr<Transport> transport) {
  rpc::Connection::Options options;
  options.last_words = rpc::last_words_patience;
  const auto client = std::make_shared<rpc::Connection>(executor_, std::move(transport), *ears_, std::move(options));
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
  ears_->ended.request(Cancel::Wish::stop_work);
  signals_.cancel();
  for (const Client& client : connections_) {
    client->close("done");
  }
}

namespace {

constexpr Milliseconds greeting_patience{10'000};

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

std::string own_name() {
  const passwd* const user = getpwuid(getuid());
  const char* const terminal = ttyname(STDIN_FILENO);
  return std::string(user != nullptr ? user->pw_name : "somebody") +
         (terminal != nullptr ? std::string(" on ") + terminal : "");
}

Task<json> greet(Client client, std::string token, bool asks) {
  json params{{"clientInfo", {{"name", own_name()}}}, {"capabilities", {{"prompt", asks && has_person()}}}};
  if (!token.empty()) {
    params["token"] = std::move(token);
  }
  co_return co_await ask(std::move(client), "initialize", std::move(params), greeting_patience);
}

json fact_of(const Error& error, std::string_view name) {
  for (const auto& [member, fact] : error.facts()) {
    if (const auto* const raw = std::get_if<RawJson>(&fact); raw != nullptr && member == name) {
      return json::parse(raw->text);
    }
  }
  return nullptr;
}

namespace {

Task<int> greet_and_run(ClientSide& side, Client client, Where where,
                        std::function<Task<int>(ClientSide&, Client)> command) {
  if (where.greets) {
    co_await greet(client, {}, where.asks);
  }
  co_return co_await command(side, client);
}

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
  spawn(executor, side.run([&](ClientSide& self) { return greet_and_run(self, client, where, command); }, code));
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
  loop.restart();
  loop.poll();  // whoever still waits has been told to end, and puts the terminal back
  return code;
}

namespace {

Task<int> with_dialled(ClientSide& side, Where where, std::function<Task<int>(ClientSide&, Client)> command) {
  const Dialled dialled = co_await dial(side, std::move(where));
  co_return co_await command(side, dialled.client);
}

}  // namespace

int with_client(const Where& where, std::function<Task<int>(ClientSide&, Client)> command) {
  if (where.address.empty()) {
    return with_own_instance(where, std::move(command));
  }
  return without_instance([&](ClientSide& side) { return with_dialled(side, where, command); });
}

}  // namespace rex::cli
