// file/copy beside two ends that may say and open what they like: an instance that is broken, or another's.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "methods/methods.h"
#include "relay/pipes.h"
#include "support/peer.h"

using nlohmann::json;
using namespace rex;

namespace {

/// Both ends of each copy, by what the test says of them.
struct Ends : rpc::Service {
  Task<rpc::Result> call(std::string method, json params, rpc::Call& call) override {
    if (method == "file/copy") {
      co_return co_await table.call(std::move(method), std::move(params), call);
    }
    const std::string ticket = params.at("ticket");
    if (method == "file/send") {
      const std::unique_ptr<Transport> pipe = pipes->open(*call.connection(), ticket);
      try {
        co_await relay::write_all(*pipe, std::string(sent, 'x'));
      } catch (const Error&) {
        // nobody reads any more
      }
      co_return json::object();
    }
    const std::unique_ptr<Transport> pipe = pipes->open(*call.connection(), ticket);
    if (opens_again) {
      Waiter waiter(call.connection()->executor());
      co_await waiter.until(Clock::now() + Milliseconds(20));  // somebody waits for room by then
      try {
        const std::unique_ptr<Transport> second = pipes->open(*call.connection(), ticket);
      } catch (const Error& error) {
        refusal = error.fault();
      }
    }
    co_return rpc::Result::written(received);
  }
  void notification(std::string, json, const std::shared_ptr<rpc::Connection>&) override {}

  std::shared_ptr<relay::Pipes> pipes = std::make_shared<relay::Pipes>();
  rpc::MethodTable table;
  std::size_t sent = 0;
  bool opens_again = false;
  std::optional<Fault> refusal;
  std::string received = R"({"files":1,"bytes":1,"skipped":0,"hash":"h"})";
};

/// A client of the one that executes the copy.
struct Rig {
  Rig() : peer(ends), workers(peer.loop.get_executor()) { methods::bind_copies(ends.table, ends, ends.pipes, workers); }

  json copied() {
    return peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"file/copy","params":)"
                    R"({"from":{"host":"a","path":"/f"},"to":{"host":"b","path":"/g"}}})");
  }

  Ends ends;
  test::Peer peer;
  Workers workers;
};

}  // namespace

TEST_CASE("An end that opens its pipe twice is refused the second, and harms nobody who waits at the first") {
  Rig rig;
  rig.ends.sent = 4 << 20;
  rig.ends.opens_again = true;
  CHECK(rig.copied().contains("result"));
  CHECK(rig.ends.refusal == Fault::NotPermitted);
}

TEST_CASE("What an end answers is believed where it is what it ought to be") {
  CHECK(Rig().copied().at("result").at("files") == 1);
  for (const char* const answer :
       {"null", "[]", R"({"files":1})", R"({"files":1e999,"bytes":1,"skipped":0,"hash":"h"})",
        R"({"files":-5,"bytes":1,"skipped":0,"hash":"h"})", R"({"files":1.5,"bytes":1,"skipped":0,"hash":"h"})",
        R"({"files":1,"bytes":1,"skipped":0,"hash":7})", R"({"files":1,"files":1,"bytes":1,"skipped":0,"hash":"h"})"}) {
    CAPTURE(answer);
    Rig rig;
    rig.ends.received = answer;
    const json error = rig.copied().at("error");
    CHECK(error.at("code") == 1306);
    CHECK(error.at("data").at("host") == "b");
    CHECK(error.at("data").at("executed") == "unknown");
  }
}
