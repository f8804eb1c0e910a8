// The Model Context Protocol as a Service behind a connection: which revision a request speaks, tools, resources,
// progress and cancellation. What a tool does is the toolbox's; knows no method of our own protocol but $/progress.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/async.h"
#include "mcp/toolbox.h"
#include "rpc/connection.h"

namespace rex::mcp {

/// One client. Must outlive the loop. Two ways of speaking are served at once, as the specification's versioning page
/// has it: requests that name their revision in `_meta` (2026-07-28), and those after an `initialize` (before it).
class Server : public rpc::Service {
 public:
  /// `service` is our own; `version` is this program's.
  Server(std::shared_ptr<rpc::Connection> service, std::string version);

  Task<rpc::Result> call(std::string method, nlohmann::json params, rpc::Call& call) override;
  void notification(std::string method, nlohmann::json params, const std::shared_ptr<rpc::Connection>& from) override;

  /// What the service told unasked.
  void hear(const std::string& method, const nlohmann::json& params);

 private:
  /// Whom to tell of progress, and how far it has come.
  struct Progress {
    std::shared_ptr<rpc::Connection> client;
    nlohmann::json token;
    std::int64_t done = 0;
    std::int64_t from = -1;  // of a run: where its output begins
    TimePoint told{};
  };
  class Entry;

  Task<nlohmann::json> answer_modern(std::string method, nlohmann::json params, rpc::Call& call, Entry& entry);
  Task<nlohmann::json> answer(std::string method, nlohmann::json params, rpc::Call& call, Entry& entry,
                              Fault not_found);
  Task<nlohmann::json> call_tool(nlohmann::json params, rpc::Call& call, Entry& entry);
  Task<nlohmann::json> read_resource(nlohmann::json params, rpc::Call& call, Fault not_found);
  Task<> listen(rpc::Call& call);
  [[nodiscard]] nlohmann::json initialize(const nlohmann::json& params, rpc::Call& call) const;
  [[nodiscard]] nlohmann::json discover() const;
  [[nodiscard]] nlohmann::json identity() const;
  void complete(nlohmann::json& result, const std::string& method) const;

  Toolbox toolbox_;
  std::string version_;
  std::map<std::string, rpc::Call*> calls_;    // by their id's value; those in flight
  std::map<std::int64_t, Progress> progress_;  // by the token the service was given; of calls in flight
  std::int64_t next_token_ = 1;
};

/// Serves `client` to its end. When its input has ended, what is in flight has a moment to end, and is then left.
Task<> serve(std::shared_ptr<rpc::Connection> client, std::shared_ptr<rpc::Connection> service);

}  // namespace rex::mcp
