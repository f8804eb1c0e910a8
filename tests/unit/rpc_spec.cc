// Every example of the JSON-RPC 2.0 specification, as it is printed there. [R01]

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "support/peer.h"

using nlohmann::json;
using rex::Error;
using rex::Fault;
using rex::Task;

namespace {

/// The server of the specification's examples; it takes params by position too.
class SpecService : public rex::rpc::Service {
 public:
  Task<rex::rpc::Result> call(std::string method, json params, rex::rpc::Call&) override {
    if (method == "subtract") {
      co_return params.is_array() ? params[0].get<int>() - params[1].get<int>()
                                  : params["minuend"].get<int>() - params["subtrahend"].get<int>();
    }
    if (method == "sum") {
      const auto numbers = params.get<std::vector<int>>();
      co_return std::accumulate(numbers.begin(), numbers.end(), 0);
    }
    if (method == "get_data") {
      co_return json::array({"hello", 5});
    }
    throw Error(Fault::MethodNotFound, "Method not found");
  }
  void notification(std::string method, json, const std::shared_ptr<rex::rpc::Connection>&) override {
    notified.push_back(std::move(method));
  }
  std::vector<std::string> notified;
};

/// Ours carry `data` and a message of our own; the specification prints neither.
json bare(json answer) {
  json all = answer.is_array() ? std::move(answer) : json::array({std::move(answer)});
  for (json& one : all) {
    if (one.contains("error") && one["error"].is_object()) {
      one["error"] = one["error"]["code"];
    }
  }
  return all;
}

struct Example {
  const char* request;
  const char* answer;  // errors by their code alone; "" for silence
};

const std::vector<Example> examples = {
    {R"({"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1})",
     R"({"jsonrpc": "2.0", "result": 19, "id": 1})"},
    {R"({"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2})",
     R"({"jsonrpc": "2.0", "result": -19, "id": 2})"},
    {R"({"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3})",
     R"({"jsonrpc": "2.0", "result": 19, "id": 3})"},
    {R"({"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4})",
     R"({"jsonrpc": "2.0", "result": 19, "id": 4})"},
    {R"({"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]})", ""},
    {R"({"jsonrpc": "2.0", "method": "foobar"})", ""},
    {R"({"jsonrpc": "2.0", "method": "foobar", "id": "1"})", R"({"jsonrpc": "2.0", "error": -32601, "id": "1"})"},
    {R"({"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz])",
     R"({"jsonrpc": "2.0", "error": -32700, "id": null})"},
    {R"({"jsonrpc": "2.0", "method": 1, "params": "bar"})", R"({"jsonrpc": "2.0", "error": -32600, "id": null})"},
    {R"([{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method"])",
     R"({"jsonrpc": "2.0", "error": -32700, "id": null})"},
    {R"([])", R"({"jsonrpc": "2.0", "error": -32600, "id": null})"},
    {R"([1])", R"([{"jsonrpc": "2.0", "error": -32600, "id": null}])"},
    {R"([1,2,3])", R"([{"jsonrpc": "2.0", "error": -32600, "id": null}, {"jsonrpc": "2.0", "error": -32600, "id": null},
       {"jsonrpc": "2.0", "error": -32600, "id": null}])"},
    {R"([{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"}, {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"}])",
     R"([{"jsonrpc": "2.0", "result": 7, "id": "1"}, {"jsonrpc": "2.0", "result": 19, "id": "2"},
        {"jsonrpc": "2.0", "error": -32600, "id": null}, {"jsonrpc": "2.0", "error": -32601, "id": "5"},
        {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}])"},
    {R"([{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}])",
     ""},
};

}  // namespace

TEST_CASE("The specification's examples are answered as printed there", "[R01]") {
  SpecService service;
  for (const bool lines : {false, true}) {
    CAPTURE(lines);
    rex::test::Peer peer(service);
    for (const Example& example : examples) {
      CAPTURE(example.request);
      std::string request = example.request;
      std::replace(request.begin(), request.end(), '\n', ' ');
      lines ? peer.send(request + "\n") : peer.send_framed(request);
      if (*example.answer != '\0') {
        const std::string answer = peer.answer();
        CHECK(answer.starts_with('[') == (*example.answer == '['));
        CHECK(bare(json::parse(answer)) == bare(json::parse(example.answer)));
      }
      // Silence is shown by what comes next being the answer to the next request.
      const std::string next = R"({"jsonrpc":"2.0","method":"get_data","id":"next"})";
      lines ? peer.send(next + "\n") : peer.send_framed(next);
      CHECK(peer.json_answer().at("id") == "next");
    }
  }
  CHECK(std::count(service.notified.begin(), service.notified.end(), "notify_hello") == 4);
  CHECK(std::count(service.notified.begin(), service.notified.end(), "update") == 2);
}
