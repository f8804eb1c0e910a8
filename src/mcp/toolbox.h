// What each tool does: requests to our own service, as any client would make them, and their results as text and data.
// Knows the service's methods; must not know MCP's messages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/async.h"
#include "mcp/text.h"
#include "rpc/connection.h"

namespace rex::mcp {

/// One call of a tool.
struct Use {
  nlohmann::json arguments;       // checked, with the schema's defaults
  Cancel* cancel;                 // outlives the call
  nlohmann::json progress_token;  // for the service; null: nobody wants progress
};

struct Outcome {
  std::string text;
  nlohmann::json data;  // an object
  bool is_error = false;
};

/// Must outlive the loop. The sessions it makes end with the connection to the service.
class Toolbox {
 public:
  explicit Toolbox(const std::shared_ptr<rpc::Connection>& service) : service_(service) {}

  /// `name` is one of all_tools(). What the service refuses becomes an outcome; only a cancel throws.
  Task<Outcome> use(std::string name, Use use);
  /// A request to the service; `host` empty: to this instance.
  Task<nlohmann::json> ask(std::string method, nlohmann::json params, std::string host, Cancel* cancel);

 private:
  using Tool = Task<Outcome> (Toolbox::*)(Use);
  static const std::map<std::string, Tool>& tools();

  Task<Outcome> run(Use use);
  Task<Outcome> wait(Use use);
  Task<Outcome> write(Use use);
  Task<Outcome> read_output(Use use);
  Task<Outcome> interrupt(Use use);
  Task<Outcome> screen(Use use);
  Task<Outcome> sessions(Use use);
  Task<Outcome> close_session(Use use);
  Task<Outcome> read_file(Use use);
  Task<Outcome> edit_file(Use use);
  Task<Outcome> write_file(Use use);
  Task<Outcome> list_files(Use use);
  Task<Outcome> search(Use use);
  Task<Outcome> hosts(Use use);
  Task<Outcome> connect_host(Use use);

  Task<nlohmann::json> forward(std::string method, Use use);
  Task<Outcome> shown_by(std::string (*text_of)(const nlohmann::json&), std::string method, Use use);
  Task<> make_session(Use use);
  Task<std::string> read_text(Place place, std::uint64_t from, std::uint64_t to, std::size_t max_bytes, Cancel* cancel);
  Task<> take_excerpt(nlohmann::json& result, Place place, std::uint64_t from, std::size_t max_bytes, Cancel* cancel);
  Task<Outcome> outcome_of_run(nlohmann::json result, Use use, std::uint64_t from);
  std::uint64_t unseen_from(const Place& place, std::uint64_t otherwise) const;
  void saw(const Place& place, std::uint64_t next);

  std::weak_ptr<rpc::Connection> service_;  // a connection must not outlive its loop, as we do
  // Where the output goes on that no answer has shown, by host and session; at most as many as there were sessions.
  std::map<std::pair<std::string, std::string>, std::uint64_t> seen_;
};

}  // namespace rex::mcp
