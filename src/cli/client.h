// The command line as a client: of an instance in the same process, or of one that others started. Either way it goes
// the very way every client goes.
#pragma once

#include <asio/signal_set.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/connection.h"
#include "shell/nursery.h"

namespace rex::cli {

using Client = std::shared_ptr<rpc::Connection>;

/// Where a command finds its instance.
struct Where {
  shell::Nursery* nursery = nullptr;  // for an instance of its own, when no address is given
  std::string address;                // unix:PATH, tcp:HOST:PORT, or an instance's name or the beginning of it
  std::string token_file;             // for tcp; empty: the default one
  std::string host;                   // beyond the instance: names of hosts, or a URL; empty: the instance itself
  bool greets = true;                 // false where the greeting is the user's own
  bool asks = true;                   // false where a person at the terminal is somebody else's
  bool is_private = false;            // an instance of its own is not to be found by others
};

/// All connections of one command, and what they tell unasked.
class ClientSide {
 public:
  explicit ClientSide(Executor executor);
  ~ClientSide();
  ClientSide(const ClientSide&) = delete;
  ClientSide& operator=(const ClientSide&) = delete;

  [[nodiscard]] Executor executor() const { return executor_; }
  Client connect(std::unique_ptr<Transport> transport);
  /// Who is told of notifications; one at a time.
  void hear(std::function<void(const std::string& method, const nlohmann::json& params)> hear);
  /// Runs the command to its end, and then ends its connections. An error that escapes is told on standard error, and
  /// the exit code is 1. SIGINT, SIGTERM, SIGQUIT and SIGHUP end it with 128 + number.
  Task<> run(std::function<Task<int>(ClientSide&)> command, int& code);

 private:
  class Ears;
  Executor executor_;
  std::unique_ptr<Ears> ears_;
  std::vector<Client> connections_;
  asio::basic_signal_set<Executor> signals_;
  int signal_ = 0;
};

/// Asks with a deadline: an instance that is stopped takes connections and never answers. Throws Overloaded then.
Task<nlohmann::json> ask(Client client, std::string method, nlohmann::json params, Milliseconds patience);

/// What a person is called to the others.
std::string own_name();

/// Says who we are, and whether there is somebody to ask; comes once on a connection. `token` is for tcp. Throws
/// Overloaded, and what `initialize` does. With `asks` the person at the terminal may be asked something.
Task<nlohmann::json> greet(Client client, std::string token = {}, bool asks = true);

/// A member of the `error.data` that came with an answer; null without it.
nlohmann::json fact_of(const Error& error, std::string_view name);

/// Runs a command that needs one instance: the one at an address, or one of its own, which ends with the command.
int with_client(const Where& where, std::function<Task<int>(ClientSide&, Client)> command);

/// Runs a command that looks for instances itself.
int without_instance(std::function<Task<int>(ClientSide&)> command);

}  // namespace rex::cli
