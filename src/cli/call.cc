// `rex-rpc call METHOD [JSON]` and `rex-rpc run COMMAND…`.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "base/fd.h"
#include "cli/client.h"
#include "cli/commands.h"

namespace rex::cli {
namespace {

using nlohmann::json;

Task<int> call_and_print(Client& client, std::string method, json params) {
  const json result = co_await client.connection->call(std::move(method), std::move(params));
  const std::string text = result.dump(2) + "\n";
  write_all(STDOUT_FILENO, text, "cannot print the result");
  co_return 0;
}

/// Copies one stream of a session to a descriptor until the program has closed it or has ended.
Task<> copy_stream(Client& client, const char* stream, int to) {
  std::int64_t offset = 0;
  bool ended = false;
  while (!ended) {
    json params{{"session", "run"}, {"stream", stream}, {"offset", offset}, {"encoding", "base64"}, {"waitMs", 60'000}};
    const json read = co_await client.connection->call("session/read", std::move(params));
    write_all(to, from_base64(read["data"].get<std::string>()).value_or(""), "cannot print output");
    offset = read["next"];
    ended = read["eof"];
  }
}

Task<int> run_and_copy(Client& client, std::vector<std::string> words) {
  json argv = words;
  if (words.size() == 1) {
    argv = {"/bin/sh", "-c", words[0]};
  }
  json session{{"session", "run"}, {"argv", std::move(argv)}, {"tty", false}, {"profile", "human"}};
  const json created = co_await client.connection->call("session/create", std::move(session));
  json end_of_input{{"session", "run"}, {"eof", true}};
  const json closed = co_await client.connection->call("session/write", std::move(end_of_input));
  co_await copy_stream(client, "stdout", STDOUT_FILENO);
  co_await copy_stream(client, "stderr", STDERR_FILENO);
  json exit{{"session", "run"}, {"any", {{{"exit", true}}}}, {"maxOutputBytes", 0}};
  exit.erase("maxOutputBytes");
  const json waited = co_await client.connection->call("session/wait", std::move(exit));
  const json& result = waited["result"];
  if (result["exitCode"].is_number()) {
    co_return result["exitCode"].get<int>();
  }
  std::fprintf(stderr, "rex-rpc: ended by signal %s\n", result["signal"].get<std::string>().c_str());
  co_return 1;
}

}  // namespace

int call(shell::Nursery& nursery, const std::string& method, const std::string& params) {
  json parsed = json::parse(params.empty() ? "{}" : params, nullptr, false);
  if (parsed.is_discarded()) {
    std::fprintf(stderr, "rex-rpc: the params are not JSON: %s\n", printable(params).c_str());
    return 2;
  }
  return with_client(nursery, [&](Client& client) { return call_and_print(client, method, parsed); });
}

int run(shell::Nursery& nursery, std::vector<std::string> words) {
  return with_client(nursery, [&](Client& client) { return run_and_copy(client, words); });
}

}  // namespace rex::cli
