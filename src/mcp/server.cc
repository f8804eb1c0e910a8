#include "mcp/server.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "mcp/resources.h"
#include "mcp/tools.h"
#include "rpc/message.h"

namespace rex::mcp {

using nlohmann::json;

namespace {

constexpr const char* modern_revision = "2026-07-28";
// Those that begin with `initialize`, the newest first; the shapes used here are the same in both.
constexpr std::array<const char*, 2> legacy_revisions{"2025-11-25", "2025-06-18"};

constexpr const char* version_key = "io.modelcontextprotocol/protocolVersion";
constexpr const char* capabilities_key = "io.modelcontextprotocol/clientCapabilities";
constexpr const char* server_key = "io.modelcontextprotocol/serverInfo";
constexpr const char* subscription_key = "io.modelcontextprotocol/subscriptionId";

// Codes that are not ours, from the specification's schemas.
constexpr auto unsupported_version = static_cast<Fault>(-32022);
constexpr auto resource_not_found = static_cast<Fault>(-32002);  // of the revisions with `initialize`

// Who closes our input means us to end; what was asked just before still gets its answer.
constexpr Milliseconds farewell{1000};
// The most often that progress of one call is told.
constexpr Milliseconds between_progress{100};
constexpr std::size_t max_progress_bytes = 200;
// What a client may keep: tools never change while we live, sessions at any time.
constexpr int tools_ttl_ms = 3'600'000;

constexpr const char* instructions =
    "Shells that persist: `run` works in a session (default \"main\") that keeps its directory, variables and "
    "background jobs between calls; conversations that share this server use session names of their own. A command "
    "that outlives waitMs goes on: `wait` for it or `interrupt` it. When a command waits for input, answer with `run` "
    "and interactive. Every answer ends with a line in brackets that says how things stand and how to read what was "
    "left out. `host` names another machine; `hosts` lists them.";

json meta_of(const json& params) {
  const auto meta = params.find("_meta");
  return meta != params.end() && meta->is_object() ? *meta : json::object();
}

/// Whether the request names its revision itself; throws if it does so in a way that is to be refused.
bool is_modern(const json& meta) {
  const auto version = meta.find(version_key);
  if (version == meta.end()) {
    return false;
  }
  if (!version->is_string()) {
    throw Error(Fault::InvalidParams, std::string("_meta ") + version_key + " must be a string");
  }
  if (*version != modern_revision) {
    throw Error(unsupported_version, "Unsupported protocol version")
        .with("type", "UnsupportedProtocolVersion")
        .with("supported", std::vector<std::string>{modern_revision})
        .with("requested", version->get<std::string>());
  }
  if (const auto capabilities = meta.find(capabilities_key); capabilities == meta.end() || !capabilities->is_object()) {
    throw Error(Fault::InvalidParams, std::string("_meta ") + capabilities_key + " is missing");
  }
  return true;
}

void refuse_cursor(const json& params) {
  if (const auto cursor = params.find("cursor"); cursor != params.end() && !cursor->is_null()) {
    throw Error(Fault::InvalidParams, "no such cursor: every list here is one page");
  }
}

/// The last line of a piece of output, for one who waits.
std::string last_line(const json& value) {
  std::string text = value.value("data", "");
  if (value.value("encoding", "") == "base64") {
    text = from_base64(text).value_or("");
  }
  const std::size_t end = text.find_last_not_of(" \r\n\t");
  text.resize(end == std::string::npos ? 0 : end + 1);
  const std::size_t begin = text.find_last_of("\r\n");
  return printable(begin == std::string::npos ? text : text.substr(begin + 1), max_progress_bytes);
}

}  // namespace

/// A call in flight, while it can be cancelled and its progress told.
class Server::Entry {
 public:
  Entry(Server& server, rpc::Call& call) : server_(server), id_(rpc::id_key(call.id())) { server_.calls_[id_] = &call; }
  ~Entry() {
    server_.calls_.erase(id_);
    server_.progress_.erase(token_);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  /// The token for the service.
  json tell(Progress progress) {
    token_ = server_.next_token_++;
    server_.progress_.emplace(token_, std::move(progress));
    return token_;
  }

 private:
  Server& server_;
  std::string id_;
  std::int64_t token_ = 0;
};

Server::Server(std::shared_ptr<rpc::Connection> service, std::string version)
    : toolbox_(std::move(service)), version_(std::move(version)) {}

json Server::identity() const { return {{"name", "rex-rpc"}, {"title", "rex-rpc shell"}, {"version", version_}}; }

json Server::initialize(const json& params, rpc::Call& call) const {
  const auto wanted = params.find("protocolVersion");
  if (wanted == params.end() || !wanted->is_string()) {
    throw Error(Fault::InvalidParams, "protocolVersion is missing");
  }
  const bool known = std::find(legacy_revisions.begin(), legacy_revisions.end(), *wanted) != legacy_revisions.end();
  call.connection()->lifecycle().initialized();
  return {{"protocolVersion", known ? *wanted : json(legacy_revisions[0])},
          {"capabilities", {{"tools", json::object()}, {"resources", json::object()}}},
          {"serverInfo", identity()},
          {"instructions", instructions}};
}

json Server::discover() const {
  return {{"supportedVersions", {modern_revision}},
          {"capabilities", {{"tools", json::object()}, {"resources", json::object()}}},
          {"instructions", instructions}};
}

/// What every result has since 2026-07-28.
void Server::complete(json& result, const std::string& method) const {
  result["resultType"] = "complete";
  result["_meta"][server_key] = identity();
  const bool is_lasting = method == "server/discover" || method == "tools/list" || method == "resources/templates/list";
  if (is_lasting || method == "resources/list" || method == "resources/read") {
    result["ttlMs"] = is_lasting ? tools_ttl_ms : 0;
    result["cacheScope"] = is_lasting ? "public" : "private";
  }
}

Task<rpc::Result> Server::call(std::string method, json params, rpc::Call& call) {
  Entry entry(*this, call);
  if (params.is_null()) {
    params = json::object();
  }
  if (!params.is_object()) {
    throw Error(Fault::InvalidParams, "params must be an object");
  }
  const bool modern = is_modern(meta_of(params));
  if (modern) {
    json result = co_await answer_modern(method, std::move(params), call, entry);
    complete(result, method);
    co_return result;
  }
  if (method == "initialize") {
    co_return initialize(params, call);
  }
  if (method == "ping") {
    co_return json::object();
  }
  if (!call.connection()->lifecycle().is_initialized()) {
    throw Error(Fault::InvalidParams, std::string("initialize comes first (") + legacy_revisions[0] +
                                          "), or each request has _meta with " + version_key + " (" + modern_revision +
                                          ") and " + capabilities_key);
  }
  co_return co_await answer(std::move(method), std::move(params), call, entry, resource_not_found);
}

Task<json> Server::answer_modern(std::string method, json params, rpc::Call& call, Entry& entry) {
  if (method == "server/discover") {
    co_return discover();
  }
  if (method == "subscriptions/listen") {
    co_await listen(call);
    co_return json{{"_meta", {{subscription_key, json::parse(call.id())}}}};
  }
  co_return co_await answer(std::move(method), std::move(params), call, entry, Fault::InvalidParams);
}

/// What is the same in all revisions but the code for a resource that is not there.
Task<json> Server::answer(std::string method, json params, rpc::Call& call, Entry& entry, Fault not_found) {
  if (method == "tools/call") {
    co_return co_await call_tool(std::move(params), call, entry);
  }
  if (method == "resources/read") {
    co_return co_await read_resource(std::move(params), call, not_found);
  }
  if (method == "tools/list" || method == "resources/list" || method == "resources/templates/list") {
    refuse_cursor(params);
  }
  if (method == "tools/list") {
    co_return json{{"tools", all_tools()}};
  }
  if (method == "resources/list") {
    json resources = co_await list_logs(toolbox_, &call.cancel());
    co_return json{{"resources", std::move(resources)}};
  }
  if (method == "resources/templates/list") {
    co_return json{{"resourceTemplates", log_templates()}};
  }
  throw Error(Fault::MethodNotFound, "no method " + printable(method));
}

Task<json> Server::call_tool(json params, rpc::Call& call, Entry& entry) {
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string()) {
    throw Error(Fault::InvalidParams, "name must be a string");
  }
  const json* const tool = find_tool(name->get_ref<const std::string&>());
  if (tool == nullptr) {
    throw Error(Fault::InvalidParams, "Unknown tool: " + printable(name->get<std::string>()));
  }
  const json given = params.value("arguments", json::object());
  if (!given.is_object()) {
    throw Error(Fault::InvalidParams, "arguments must be an object");
  }
  Outcome outcome;
  const json& schema = (*tool)["inputSchema"];
  if (const auto problem = problem_with(schema, given)) {
    outcome = {"InvalidArguments: " + *problem, json{{"error", {{"message", *problem}}}}, true};
  } else {
    Use use{with_defaults(schema, given), &call.cancel(), nullptr};
    const json meta = meta_of(params);
    if (const auto token = meta.find("progressToken"); token != meta.end()) {
      if (!token->is_string() && !token->is_number_integer()) {
        throw Error(Fault::InvalidParams, "progressToken must be a string or an integer");
      }
      Progress progress{call.connection(), *token};
      use.progress_token = entry.tell(std::move(progress));
    }
    std::string chosen = name->get<std::string>();
    outcome = co_await toolbox_.use(std::move(chosen), std::move(use));
  }
  json content = json::array({{{"type", "text"}, {"text", std::move(outcome.text)}}});
  co_return json{
      {"content", std::move(content)}, {"structuredContent", std::move(outcome.data)}, {"isError", outcome.is_error}};
}

Task<json> Server::read_resource(json params, rpc::Call& call, Fault not_found) {
  const auto uri = params.find("uri");
  if (uri == params.end() || !uri->is_string()) {
    throw Error(Fault::InvalidParams, "uri must be a string");
  }
  const std::string asked = *uri;
  const std::optional<LogUri> log = parse_log_uri(asked);
  bool found = log.has_value();
  if (found) {
    try {
      json contents = co_await read_log(toolbox_, asked, *log, &call.cancel());
      co_return json{{"contents", std::move(contents)}};
    } catch (const Error& error) {
      found = error.fault() != Fault::SessionNotFound && error.fault() != Fault::HostNotFound;
      if (found) {
        throw;
      }
    }
  }
  throw Error(not_found, "Resource not found").with("type", "ResourceNotFound").with("uri", asked);
}

/// Nothing that a client could be told changes unasked, so the stream only is.
Task<> Server::listen(rpc::Call& call) {
  json params{{"_meta", {{subscription_key, json::parse(call.id())}}}, {"notifications", json::object()}};
  call.connection()->notify("notifications/subscriptions/acknowledged", params);
  Waiter waiter(call.connection()->executor());
  waiter.subscribe(call.cancel().changed());
  waiter.subscribe(call.connection()->half_closed());
  waiter.subscribe(call.connection()->closed());
  while (!call.cancel() && !call.connection()->is_half_closed() && !call.connection()->is_closed()) {
    co_await waiter.until(never);
  }
}

void Server::notification(std::string method, json params, const std::shared_ptr<rpc::Connection>& /*from*/) {
  if (method != "notifications/cancelled" || !params.is_object() || !params.contains("requestId")) {
    return;
  }
  if (const auto found = calls_.find(params["requestId"].dump()); found != calls_.end()) {
    found->second->forgo_answer();
    found->second->cancel().request(Cancel::Wish::stop_work);
  }
}

void Server::hear(const std::string& method, const json& params) {
  if (method != "$/progress" || !params.contains("token") || !params["token"].is_number_integer()) {
    return;
  }
  const auto found = progress_.find(params["token"].get<std::int64_t>());
  if (found == progress_.end()) {
    return;
  }
  Progress& progress = found->second;
  const json value = params.value("value", json::object());
  std::string message;
  std::int64_t done = progress.done + 1;
  if (value.contains("data")) {
    progress.from = progress.from < 0 ? value["from"].get<std::int64_t>() : progress.from;
    done = value["next"].get<std::int64_t>() - progress.from;
    message = last_line(value);
  } else if (value.contains("phase")) {
    message = value["phase"].get<std::string>();
    message += value.contains("detail") ? ": " + printable(value["detail"].get<std::string>(), max_progress_bytes) : "";
  }
  const TimePoint now = Clock::now();
  if (done <= progress.done || (progress.done > 0 && now < progress.told + between_progress)) {
    return;
  }
  progress.done = done;
  progress.told = now;
  json told{{"progressToken", progress.token}, {"progress", done}};
  if (!message.empty()) {
    told["message"] = std::move(message);
  }
  progress.client->notify("notifications/progress", told);
}

namespace {

/// Ends the client when there is nobody to serve it any more, or it has nothing more to say.
Task<> watch(std::shared_ptr<rpc::Connection> client, std::shared_ptr<rpc::Connection> service) {
  Waiter waiter(client->executor());
  waiter.subscribe(client->closed());
  waiter.subscribe(client->half_closed());
  waiter.subscribe(service->closed());
  TimePoint deadline = never;
  while (!client->is_closed() && !service->is_closed() && Clock::now() < deadline) {
    if (client->is_half_closed() && deadline == never) {
      deadline = Clock::now() + farewell;
    }
    co_await waiter.until(deadline);
  }
  client->close(service->is_closed() ? "the instance is gone" : "end of input");
}

}  // namespace

Task<> serve(std::shared_ptr<rpc::Connection> client, std::shared_ptr<rpc::Connection> service) {
  spawn(client->executor(), watch(client, service));
  co_await client->run();
}

}  // namespace rex::mcp
