// One connection, end to end: every request gets exactly one answer, control never waits, and the stream's end is told
// from the client's wish.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "relay/router.h"
#include "support/peer.h"

using nlohmann::json;
using namespace rex;
using rpc::Call;
using rpc::Connection;
using test::framed;
using test::Peer;

namespace {

std::string request(const std::string& id, const std::string& method, const std::string& params = "{}") {
  return R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":")" + method + R"(","params":)" + params + "}";
}

std::string cancel(const std::string& params) {
  return R"({"jsonrpc":"2.0","method":"$/cancelRequest","params":)" + params + "}";
}

/// A server small enough to read, behind the real router.
struct Server {
  Server() {
    table.bind("ping", &Server::ping);
    table.bind("echo", &Server::echo);
    table.bind("throws", &Server::throws);
    table.bind("flood", &Server::flood);
    table.bind("hold", [this](json params, Call& call) { return hold(std::move(params), call); });
    table.bind("ask", [](json params, Call& call) { return ask(std::move(params), call); });
    table.bind("initialize", [](json params, Call& call) { return initialize(std::move(params), call); });
    table.bind("shutdown", [](json, Call& call) { return shutdown(call); });
    table.bind_notification("note", [this](const json& params, const auto&) { notes.push_back(params); });
    table.bind_notification("exit", [](const json&, const auto& from) { from->close("exit"); });
    table.bind_notification("bad", [](const json&, const auto&) { throw Error(Fault::OsError, "bad"); });
  }

  static Task<rpc::Result> ping(json, Call&) { co_return json::object(); }
  static Task<rpc::Result> echo(json params, Call&) { co_return params; }
  static Task<rpc::Result> flood(json params, Call&) {
    co_return json(std::string(params.at("bytes").get<std::size_t>(), 'x'));
  }
  static Task<rpc::Result> throws(json params, Call&) {
    const std::string what = params.value("what", "");
    if (what == "error") {
      throw Error(Fault::SessionBusy, "busy").with("job", "17");
    }
    if (what == "much") {
      throw Error(Fault::RequestCancelled, "cancelled")
          .executed(Executed::yes)
          .with("result", std::string(params.at("bytes").get<std::size_t>(), 'x'));
    }
    if (what == "int") {
      throw 5;
    }
    if (what == "bytes") {
      co_return json("\xff");
    }
    throw std::logic_error("secret of the server");
  }
  static Task<rpc::Result> ask(json params, Call& call) {
    const auto connection = call.connection();
    json answer = co_await connection->call("client/question", std::move(params));
    co_return json{{"answered", answer}};
  }
  static Task<rpc::Result> initialize(json params, Call& call) {
    if (call.connection()->lifecycle().is_stranger() && !call.connection()->admits(params.value("token", ""))) {
      throw Error(Fault::Unauthenticated, "a wrong token");
    }
    call.connection()->lifecycle().initialized();
    co_return json::object();
  }
  static Task<rpc::Result> shutdown(Call& call) {
    call.connection()->lifecycle().shut_down();
    co_return json();
  }
  /// Ends when released or cancelled, and says which.
  Task<rpc::Result> hold(json, Call& call) {
    ++holding;
    Waiter waiter(call.connection()->executor());
    waiter.subscribe(call.cancel().changed());
    waiter.subscribe(release);
    while (!released && !call.cancel()) {
      co_await waiter.until(never);
    }
    --holding;
    if (call.cancel()) {
      ++cancelled;
      throw Error(Fault::RequestCancelled, "cancelled").with("stop", call.cancel().wish() == Cancel::Wish::stop_work);
    }
    co_return json("released");
  }
  void release_all() {
    released = true;
    release.notify();
  }

  rpc::MethodTable table;
  relay::Hosts hosts{"", nullptr, nullptr, nullptr};
  relay::Router router{table, hosts, std::make_shared<relay::Pipes>(), nullptr};
  Event release;
  bool released = false;
  int holding = 0;
  int cancelled = 0;
  std::vector<json> notes;
};

struct Client : Peer {
  explicit Client(Server& its_server, Connection::Options options = {})
      : Peer(its_server.router, std::move(options)), server(its_server) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    server.release_all();
    finish();
  }
  Server& server;
};

Connection::Options for_strangers() {
  Connection::Options options;
  options.trusted = false;
  options.admits = [](std::string_view token) { return token == "right"; };
  return options;
}

}  // namespace

TEST_CASE("A refused request leaves the connection as it was",
          "[F02][F08][F20][F22][J03][R02][R03][R05][R06][R07][R08]") {
  Server server;
  Connection::Options options;
  options.limits.frame_bytes = 4096;
  Client peer(server, options);
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "-32700 null"},
      {"  ", "-32700 null"},
      {"\xef\xbb\xbf{}", "-32700 null"},
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}})", "-32600 1"},
      {request("1", "rpc.foo"), "-32601 1"},
      {request("1", "$/x"), "-32601 1"},
      {request("1", "$/cancelRequest", R"({"id":1})"), "-32601 1"},
      {request("1", ""), "-32601 1"},
      {request("1", "note"), "-32601 1"},
      {request("1", "ping", "5"), "-32602 1"},
      {request("1", "ping", "\"x\""), "-32602 1"},
      {request("1", "ping", "true"), "-32602 1"},
      {request("1", "ping", "[]"), "-32602 1"},
      {request("null", "ping"), "-32600 null"},
      {request("1", "ping", R"({"host":"gpu/inner"})"), "1301 1"},
      {request("1", "ping", R"({"host":5})"), "-32602 1"},
      {std::string(4097, ' '), "1201 null"},
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":)" + std::string(70, '[') + std::string(70, ']') + "}",
       "1201 1"},
  };
  for (const auto& [body, expected] : rows) {
    CAPTURE(body.substr(0, 100));
    const json answer = peer.ask(body);
    CHECK(answer.at("error").at("code").dump() + " " + answer.at("id").dump() == expected);
    CHECK(answer.at("error").at("data").at("executed") == "no");
    CHECK(answer.at("error").at("data").at("type").is_string());
    CHECK(peer.alive());
  }
  CHECK(peer.ask(request("1", "ping", "null")).at("result") == json::object());
  for (const char* silent :
       {R"({"jsonrpc":"2.0","method":"$/x"})", R"({"jsonrpc":"2.0","method":"unknown","params":[1]})",
        R"({"jsonrpc":"2.0","method":"ping"})", R"({"jsonrpc":"2.0","method":"note","params":5})",
        R"({"jsonrpc":"2.0","method":"bad"})", R"({"jsonrpc":"2.0","method":"note","params":{"host":"x"}})",
        R"({"jsonrpc":"2.0","method":"note","params":{"host":5}})"}) {
    CAPTURE(silent);
    peer.send_framed(silent);
    CHECK(peer.alive());
  }
  CHECK(server.notes.empty());
}

TEST_CASE("However a handler ends, there is one answer and the server lives", "[R20][J15]") {
  Server server;
  std::string logged;
  Connection::Options options;
  options.incident = [&](std::string_view line) { logged += line; };
  Client peer(server, options);
  CHECK(peer.ask(request("1", "throws", R"({"what":"error"})")).at("error").at("data") ==
        json{{"type", "SessionBusy"}, {"executed", "no"}, {"retryable", false}, {"job", "17"}});
  for (const char* what : {"logic", "int", "bytes"}) {
    CAPTURE(what);
    const json answer = peer.ask(request("1", "throws", json{{"what", what}}.dump()));
    CHECK(answer.at("error").at("code") == -32603);
    CHECK(answer.at("error").at("data").at("executed") == "unknown");
    const auto incident = answer.at("error").at("data").at("incident").get<std::string>();
    CHECK(logged.find(incident) != std::string::npos);
    CHECK(answer.dump().find("secret") == std::string::npos);
    CHECK(peer.alive());
  }
  CHECK(logged.find("secret of the server") != std::string::npos);
}

TEST_CASE("Control is answered while a thousand calls wait, and the next one is refused", "[G8][L08][R09][R10]") {
  Server server;
  Client peer(server);
  for (int i = 0; i < 999; ++i) {
    peer.send_framed(request(std::to_string(i), "hold"));
  }
  CHECK(peer.alive());
  peer.send_framed(request("999", "hold"));
  peer.until([&] { return server.holding == 1000; });
  const json refused = peer.ask(request("1000", "hold"));
  CHECK(refused.at("error").at("code") == 1202);
  CHECK(refused.at("error").at("data").at("retryAfterMs").is_number_integer());
  CHECK(refused.at("error").at("data").at("retryable") == true);

  const json twice = peer.ask(request("5", "ping"));
  CHECK(twice.at("error").at("code") == -32600);
  CHECK(twice.at("error").at("data").at("reason") == "duplicateId");
  CHECK(server.holding == 1000);

  peer.send_framed(cancel(R"({"id":5})"));
  const json cancelled = peer.json_answer();
  CHECK(cancelled.at("id") == 5);
  CHECK(cancelled.at("error").at("code") == -32800);
  CHECK(peer.ask(request("5", "ping")).contains("result"));  // an answered id is free again

  server.release_all();
  std::multiset<int> ids;
  for (int i = 0; i < 999; ++i) {
    ids.insert(peer.json_answer().at("id").get<int>());
  }
  CHECK(std::set<int>(ids.begin(), ids.end()).size() == 999);
  CHECK(peer.alive());
}

TEST_CASE("A cancel means the one call it names, and never gets an answer of its own", "[G7][R13]") {
  Server server;
  Client peer(server);
  const std::vector<std::pair<std::string, std::string>> spellings = {
      {"1", "1"},
      {"\"1\"", "\"1\""},
      {R"("\u0041")", R"("A")"},
      {"12345678901234567890123", "12345678901234567890123"}};
  for (const auto& [id, named] : spellings) {
    CAPTURE(id);
    // In one write: the cancel is there before the loop has turned once.
    peer.send(framed(request(id, "hold")) + framed(cancel(R"({"id":)" + named + "}")) +
              framed(cancel(R"({"id":)" + named + "}")));
    const std::string answer = peer.answer();
    CHECK(answer.find("\"id\":" + id + ",") != std::string::npos);
    CHECK(json::parse(answer).at("error").at("data").at("stop") == true);
    peer.send_framed(cancel(R"({"id":)" + named + "}"));
    CHECK(peer.alive());
  }
  peer.send(framed(request("1", "hold")) + framed(cancel(R"({"id":1,"stop":false})")));
  CHECK(peer.json_answer().at("error").at("data").at("stop") == false);

  peer.send_framed(request("1", "hold"));
  for (const char* none : {R"({"id":2})", R"({"id":"1"})", R"({"id":null})", R"({"id":1.0})", "[1]", "{}", "null",
                           R"({"id":1,"stop":5})", R"({"id":12345678901234567890124})"}) {
    peer.send_framed(cancel(none));
  }
  peer.send_framed(R"({"jsonrpc":"2.0","method":"$/cancelRequest"})");
  CHECK(peer.alive());
  CHECK(server.holding == 1);
}

TEST_CASE("A batch is answered once, when its last call is done", "[R01][G4][L09]") {
  Server server;
  Client peer(server);
  peer.send_framed("[" + request("1", "hold") + "," + request("2", "ping") + ",5," + cancel(R"({"id":9})") + "," +
                   request("1", "ping") + "]");
  CHECK(peer.alive());
  server.release_all();
  const json answers = peer.json_answer();
  REQUIRE(answers.size() == 4);
  CHECK(answers[0].at("result") == "released");
  CHECK(answers[1].at("result") == json::object());
  CHECK(answers[2].at("id") == nullptr);
  CHECK(answers[3].at("error").at("data").at("reason") == "duplicateId");

  std::string huge = "[";
  for (int i = 0; i <= 1000; ++i) {
    huge += (i == 0 ? "" : ",") + std::string(R"({"jsonrpc":"2.0","method":"note"})");
  }
  CHECK(peer.ask(huge + "]").at("error").at("code") == 1201);
  CHECK(server.notes.empty());
  CHECK(peer.alive());
}

TEST_CASE("End of input is a half-close: what was read is finished, answered, flushed", "[G6][T14]") {
  Server server;
  for (const bool complete : {true, false}) {
    CAPTURE(complete);
    server.released = false;
    Client peer(server);
    peer.send(request("1", "hold") + "\n" + request("2", "flood", R"({"bytes":500000})") + "\n" +
              (complete ? request("3", "ping") : R"({"jsonrpc":"2.0","id":3,"method":"pi)"));
    peer.end_input();
    CHECK(peer.json_answer().at("id") == 2);
    const json last = peer.json_answer();
    CHECK((complete ? last.at("id") == 3 : last.at("error").at("code") == -32700));
    CHECK(!peer.finished);
    server.release_all();
    CHECK(peer.json_answer().at("result") == "released");
    peer.until_finished();
    CHECK(peer.unread().empty());
    CHECK(peer.connection->is_closed());
  }
  Client silent(server);
  silent.end_input();
  silent.until_finished();
  CHECK(silent.unread().empty());
}

TEST_CASE("A peer that can no longer read is noticed at once, and nothing is cancelled by it", "[G6][T01][P12]") {
  Server server;
  Client peer(server);
  peer.send_framed(request("1", "hold"));
  CHECK(peer.alive());
  Waiter watcher(peer.loop.get_executor());
  watcher.subscribe(peer.connection->closed());
  peer.hang_up();
  peer.until_finished();
  CHECK(peer.connection->is_closed());
  CHECK(server.holding == 1);
  CHECK(server.cancelled == 0);
  server.release_all();  // its answer goes nowhere
  peer.until([&] { return peer.connection->in_flight() == 0; });
}

TEST_CASE("What is no frame ends the stream without an effect, and without a word to a stranger", "[F14][F17][F19]") {
  Server server;
  Client stranger(server);
  stranger.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n" + framed(R"({"jsonrpc":"2.0","method":"note"})"));
  stranger.until_finished();
  CHECK(stranger.unread().empty());

  Client client(server);
  client.send(framed(request("1", "hold")) + "garbage" + framed(request("2", "ping")));
  const json told = client.json_answer();
  CHECK(told.at("id") == nullptr);
  CHECK(told.at("error").at("code") == -32600);
  server.release_all();
  CHECK(client.json_answer().at("result") == "released");
  client.until_finished();
  CHECK(client.unread().empty());
  CHECK(server.notes.empty());
}

TEST_CASE("A connection asks as well as it answers", "[R11]") {
  Server server;
  Client peer(server);
  peer.send_framed(request("1", "ask", R"({"q":1})"));
  const json question = peer.json_answer();
  CHECK(question.at("method") == "client/question");
  CHECK(question.at("params") == json{{"q", 1}});
  const std::string id = question.at("id").dump();
  CHECK(peer.ask(R"({"jsonrpc":"2.0","id":)" + id + R"(,"result":[42]})").at("result") == json{{"answered", {42}}});

  peer.send_framed(request("2", "ask"));
  const std::string second = peer.json_answer().at("id").dump();
  const json failed =
      peer.ask(R"({"jsonrpc":"2.0","id":)" + second +
               R"(,"error":{"code":1302,"message":"no","data":{"executed":"unknown","phase":"auth"}}})");
  CHECK(failed.at("error").at("code") == 1302);
  CHECK(failed.at("error").at("data").at("phase") == "auth");
  CHECK(failed.at("error").at("data").at("executed") == "unknown");

  peer.send_framed(request("3", "ask"));
  peer.answer();
  peer.end_input();
  CHECK(peer.json_answer().at("error").at("code") == 1304);
  peer.until_finished();
}

TEST_CASE("Answers to nothing are counted, and a hundred are enough", "[R11]") {
  Server server;
  Client peer(server);
  for (int i = 0; i < 50; ++i) {
    peer.send_framed(R"({"jsonrpc":"2.0","id":77,"result":1})");
    peer.send_framed(R"({"jsonrpc":"2.0","id":77,"result":1,"error":{"code":1,"message":"m"}})");
  }
  CHECK(peer.alive());
  peer.send_framed(R"({"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}})");
  peer.until_finished();
}

TEST_CASE("No answer is longer than a frame, and what would be says so", "[F22]") {
  Server server;
  Connection::Options options;
  options.limits.frame_bytes = 4096;
  Client peer(server, options);
  const auto flood = [](int id, std::size_t bytes) {
    return request(std::to_string(id), "flood", json{{"bytes", bytes}}.dump());
  };
  const std::size_t around = std::string(R"({"jsonrpc":"2.0","id":1,"result":""})").size();
  CHECK(peer.ask(flood(1, 4096 - around)).contains("result"));
  const json error = peer.ask(flood(1, 4097 - around)).at("error");
  CHECK(error.at("code") == 1201);
  CHECK(error.at("data") == json{{"type", "LimitExceeded"},
                                 {"executed", "yes"},
                                 {"retryable", false},
                                 {"limit", "frameBytes"},
                                 {"value", 4097},
                                 {"max", 4096}});

  const json failed = peer.ask(request("1", "throws", R"({"what":"much","bytes":4000})")).at("error");
  CHECK(failed.at("code") == -32800);
  CHECK(failed.at("data").at("executed") == "yes");
  CHECK_FALSE(failed.at("data").contains("result"));

  const json batch = peer.ask("[" + flood(1, 1400) + "," + flood(2, 1600) + "," + flood(3, 1500) + "]");
  REQUIRE(batch.size() == 3);
  CHECK(batch[0].at("result").get<std::string>().size() == 1400);
  CHECK(batch[1].at("error").at("data").at("limit") == "frameBytes");
  CHECK(batch[1].at("id") == 2);
  CHECK(batch[2].at("result").get<std::string>().size() == 1500);

  const std::string asked = request("1", "ask", R"({"x":""})");  // as long as the question but for the method
  const json refused = peer.ask(request("1", "ask", json{{"x", std::string(4096 - asked.size(), 'x')}}.dump()));
  CHECK(refused.at("error").at("data").at("limit") == "frameBytes");
  CHECK(refused.at("error").at("data").at("executed") == "no");
  CHECK(peer.alive());
}

TEST_CASE("Nobody waits for an answer that cannot be read", "[F22][R11]") {
  const auto answer = [](const json& id, const json& result) {
    return json{{"jsonrpc", "2.0"}, {"id", id}, {"result", result}}.dump();
  };
  for (const json& result : {json(std::string(5000, 'x')), json(std::vector<int>(100, 1))}) {
    Server server;
    Connection::Options options;
    options.limits.frame_bytes = 4096;
    options.limits.json_values = 50;
    Client peer(server, options);
    CHECK(peer.ask(answer(1, result)).at("error").at("code") == 1201);
    CHECK(peer.alive());  // as nobody waited

    peer.send_framed(request("1", "ask"));
    const json id = peer.json_answer().at("id");
    peer.send_framed(answer(id, result));
    const json told = peer.json_answer();
    CHECK(told.at("id") == nullptr);
    CHECK(told.at("error").at("code") == 1201);
    peer.until_finished();
    peer.until([&] { return peer.connection->in_flight() == 0; });
    CHECK(peer.connection->lost_an_answer());
    CHECK(peer.connection->close_reason().find(result.is_string() ? "frameBytes" : "jsonValues") != std::string::npos);
  }
}

TEST_CASE("An answer in which something is not taken is an answer to whoever asked, and to nobody else", "[R11]") {
  const std::string refused[] = {
      R"("result":1,"result":2)",
      R"("error":{"code":1,"message":"m","data":{"a":1,"a":2}})",
      R"("result":)" + std::string(1100, '1'),
  };
  for (const std::string& members : refused) {
    CAPTURE(members.substr(0, 60));
    Server server;
    Client peer(server);
    peer.send_framed(request("1", "ask"));
    const std::string id = peer.json_answer().at("id").dump();
    peer.send_framed(R"({"jsonrpc":"2.0","id":)" + id + "," + members + "}");
    const json told = peer.json_answer();  // nothing comes before it: what we said of our own number might be taken
    CHECK(told.at("id") == 1);
    CHECK(told.at("error").at("code") == 1306);
    CHECK(told.at("error").at("data").at("executed") == "unknown");
    CHECK(peer.alive());
    peer.send_framed(R"({"jsonrpc":"2.0","id":77,)" + members + "}");
    CHECK(peer.alive());  // the next word of ours: 77 may be a request of the peer's own
  }
}

TEST_CASE("Nobody waits for an answer that cannot be told to be one", "[R11]") {
  struct Case {
    const char* text;  // @ is the id of the request that waits
    int answered;      // the code, or 0 where nothing is
  };
  const Case cases[] = {
      {R"({"jsonrpc":"2.0","id":@,"result":"\ud800"})", -32700},
      {R"({"jsonrpc":"2.0","id":@,"id":@,"result":1})", -32600},
      {R"({"jsonrpc":"2.0","id":@})", -32600},
      {R"({"jsonrpc":"2.0","id":@,"outcome":1})", -32600},
      {"7", -32600},
      {"[]", -32600},
      {R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}})", 0},
      {R"({"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}})", 0},
  };
  const auto with_id = [](std::string said, const std::string& id) {
    for (std::size_t at = 0; (at = said.find('@')) != said.npos;) {
      said.replace(at, 1, id);
    }
    return said;
  };
  Server server;
  for (const auto& [text, answered] : cases) {
    CAPTURE(text);
    Client calm(server);
    if (answered != 0) {
      CHECK(calm.ask(with_id(text, "77")).at("error").at("code") == answered);
    } else {
      calm.send_framed(text);
    }
    CHECK(calm.alive());  // as nobody waited

    Client peer(server);
    peer.send_framed(request("1", "ask"));
    peer.send_framed(with_id(text, peer.json_answer().at("id").dump()));
    if (answered != 0) {
      CHECK(peer.json_answer().at("error").at("code") == answered);
    }
    peer.until_finished();
    peer.until([&] { return peer.connection->in_flight() == 0; });
    CHECK(peer.connection->lost_an_answer());
  }
}

TEST_CASE("A request that is refused takes no answer away", "[R11]") {
  Server server;
  Client peer(server);
  peer.send_framed(request("1", "ask"));
  const json asked = peer.json_answer();
  CHECK(peer.ask(R"({"jsonrpc":"2.0","id":2,"method":7})").at("error").at("code") == -32600);
  CHECK(peer.ask(R"({"jsonrpc":"2.0","id":2,"method":"echo","params":{"a":1,"a":2}})").at("error").at("code") ==
        -32600);
  peer.send_framed(json{{"jsonrpc", "2.0"}, {"id", asked.at("id")}, {"result", 1}}.dump());
  CHECK(peer.json_answer().at("id") == 1);
}

TEST_CASE("Half a line at the end of input takes no answer away", "[G6][R11]") {
  Server server;
  Client peer(server);
  peer.send(request("1", "ask") + "\n");
  CHECK(peer.json_answer().at("method") == "client/question");
  peer.send(request("2", "hold") + "\n" + R"({"jsonrpc":"2.0","id":3,"met)");
  peer.until([&] { return server.holding == 1; });
  peer.end_input();
  CHECK(peer.json_answer().at("error").at("code") == -32700);
  CHECK(peer.json_answer().at("id") == 1);
  server.release_all();
  CHECK(peer.json_answer().at("result") == "released");
  peer.until_finished();
}

TEST_CASE("What has been sent leaves no copy, also where the peer took its time", "[R11]") {
  struct Slow : Transport {
    explicit Slow(Executor its_executor) : executor(its_executor) {}
    Task<std::size_t> read_some(std::span<char>) override { co_return co_await ended(); }
    std::size_t try_write(std::string_view data) override {
      if (std::exchange(takes, true)) {
        last = data;
        return data.size();
      }
      return 0;
    }
    Task<> writable() override { co_return; }
    Task<bool> gone() override { co_return co_await ended() != 0; }
    void end_output() override {}
    void close() override {
      closed = true;
      changed.notify();
    }
    Task<std::size_t> ended() {
      Waiter waiter(executor);
      waiter.subscribe(changed);
      while (!closed) {
        co_await waiter.until(never);
      }
      co_return 0;
    }
    Executor executor;
    Event changed;
    bool closed = false;
    bool takes = false;
    std::string_view last;
  };
  Server server;
  Loop loop{1};
  auto slow = std::make_unique<Slow>(loop.get_executor());
  const Slow& seen = *slow;
  const auto connection =
      std::make_shared<Connection>(loop.get_executor(), std::move(slow), server.router, Connection::Options{});
  spawn(loop.get_executor(), connection->run());
  connection->notify("note", json{{"secret", "hunter2"}});
  loop.poll();
  REQUIRE(connection->unsent_bytes() == 0);
  CHECK(std::ranges::count(seen.last, '\0') == std::ssize(seen.last));  // where it lay
  connection->close("the test is over");
  loop.restart();
  loop.run();
}

TEST_CASE("The base protocol's order is kept", "[R16]") {
  Server server;
  const std::string exit = R"({"jsonrpc":"2.0","method":"exit"})";
  Client trusted(server);
  CHECK(trusted.alive());
  CHECK(trusted.ask(request("1", "initialize")).contains("result"));
  CHECK(trusted.ask(request("1", "initialize")).at("error").at("code") == -32600);
  CHECK(trusted.ask(request("1", "shutdown")).contains("result"));
  CHECK(trusted.ask(request("1", "shutdown")).at("error").at("code") == -32600);
  CHECK(trusted.ask(request("1", "ping")).at("error").at("code") == -32600);
  trusted.send_framed(R"({"jsonrpc":"2.0","method":"note"})");
  trusted.send_framed(exit);
  trusted.until_finished();
  CHECK(trusted.connection->lifecycle().exit_code() == 0);
  CHECK(server.notes.empty());

  Client hasty(server);
  hasty.send_framed(exit);
  hasty.until_finished();
  CHECK(hasty.connection->lifecycle().exit_code() == 1);

  Client stranger(server, for_strangers());
  CHECK(stranger.ask(request("1", "ping")).at("error").at("code") == -32002);
  stranger.until_finished();

  Client known(server, for_strangers());
  CHECK(known.ask(request("1", "initialize", R"({"token":"right"})")).contains("result"));
  CHECK(known.alive());
  CHECK(known.ask(request("1", "initialize", R"({"token":"right"})")).at("error").at("code") == -32600);
}

TEST_CASE("A stranger has one try, and until then nothing has an effect", "[G11][R16]") {
  Server server;
  const std::string note = R"({"jsonrpc":"2.0","method":"note"})";
  const std::string right = request("1", "initialize", R"({"token":"right"})");
  const std::string wrong = request("1", "initialize", R"({"token":"wrong"})");
  // The first message, and the code of the one answer to it; 0 for none.
  const std::vector<std::pair<std::string, int>> rows = {
      {request("1", "ping"), -32002},
      {request("1", "nonsense"), -32002},
      {note, 0},
      {R"({"jsonrpc":"2.0","id":1,"result":0})", 0},
      {cancel(R"({"id":1})"), 0},
      {"{", -32700},
      {"[]", -32600},
      {"[" + note + "," + right + "," + note + "]", 0},
      {"[" + request("2", "ping") + "," + right + "," + note + "]", 0},
      {wrong, 1001},
      {request("1", "initialize"), 1001},
      {request("1", "initialize", R"({"token":"right","x":")" + std::string(70'000, 'x') + "\"}"), 1201},
  };
  for (const auto& [message, code] : rows) {
    INFO(message.substr(0, 100));
    Client stranger(server, for_strangers());
    stranger.send_framed(message);
    if (code != 0) {
      CHECK(stranger.json_answer().at("error").at("code") == code);
    }
    stranger.until_finished();
    CHECK(stranger.unread().empty());
  }
  CHECK(server.notes.empty());

  Client impatient(server, for_strangers());
  impatient.send(framed(wrong) + framed(right) + framed(note));
  CHECK(impatient.json_answer().at("error").at("code") == 1001);
  impatient.until_finished();
  CHECK(impatient.unread().empty());
  CHECK(server.notes.empty());
}

TEST_CASE("What follows the right token at once is heard", "[G11]") {
  Server server;
  const std::string right = request("1", "initialize", R"({"token":"right"})");
  const std::string large = request("2", "echo", R"({"x":")" + std::string(70'000, 'x') + "\"}");
  Client framing(server, for_strangers());
  framing.send(framed(right) + framed(large));
  CHECK(framing.json_answer().contains("result"));
  CHECK(framing.json_answer().at("result").at("x").get<std::string>().size() == 70'000);
  Client lines(server, for_strangers());
  lines.send(right + "\n" + large + "\n");
  CHECK(lines.json_answer().at("id") == 1);
  CHECK(lines.json_answer().at("id") == 2);
  Client batch(server, for_strangers());
  CHECK(batch.ask("[" + right + "," + request("2", "ping") + "]").size() == 2);
}

TEST_CASE("A client that does not read costs a bounded amount of memory", "[G9]") {
  Server server;
  Connection::Options options;
  options.limits.unsent_bytes = 128 << 10;
  Client peer(server, options);
  peer.deaf = true;
  constexpr int requests = 90;
  const std::string params = json{{"bytes", 10000}, {"padding", std::string(10000, 'x')}}.dump();
  for (int i = 0; i < requests; ++i) {
    peer.send_framed(request(std::to_string(i), "flood", params));
  }
  peer.until([&] { return peer.connection->unsent_bytes() > options.limits.unsent_bytes; });
  const std::size_t unsent = peer.connection->unsent_bytes();
  CHECK(unsent < options.limits.unsent_bytes + (80 << 10));  // what one chunk of input asked for comes on top
  peer.loop.restart();
  peer.loop.poll();
  CHECK(peer.connection->unsent_bytes() == unsent);
  peer.deaf = false;
  for (int i = 0; i < requests; ++i) {
    CHECK(peer.json_answer().at("id") == i);
  }
  CHECK(peer.connection->unsent_bytes() == 0);
}

TEST_CASE("Answers use the framing of the requests, and count bytes", "[F21][G1][G3]") {
  Server server;
  const std::string emoji = R"({"text":"😀é"})";
  Client lines(server);
  lines.send(request("1", "echo", emoji) + "\n");
  lines.until([&] { return lines.unread().find('\n') != std::string::npos; });
  CHECK(lines.unread() == R"({"jsonrpc":"2.0","id":1,"result":{"text":"😀é"}})"
                          "\n");

  Client headers(server);
  headers.send_framed(request("1", "echo", emoji));
  const std::string body = R"({"jsonrpc":"2.0","id":1,"result":{"text":"😀é"}})";
  headers.until([&] { return headers.unread().size() >= framed(body).size(); });
  CHECK(headers.unread() == framed(body));
}

TEST_CASE("Bytes one by one do what they do at once", "[F01]") {
  Server server;
  Client peer(server);
  for (const char byte : framed(request("1", "ping")) + framed("[" + request("2", "ping") + "]")) {
    peer.send(std::string(1, byte));
    peer.loop.restart();
    peer.loop.poll();
  }
  CHECK(peer.json_answer().at("id") == 1);
  CHECK(peer.json_answer()[0].at("id") == 2);
}
