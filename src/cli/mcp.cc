// `rex-rpc mcp`: an agent's MCP client on standard input and output, served from an instance as every client is.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "cli/client.h"
#include "cli/commands.h"
#include "mcp/server.h"
#include "methods/version.h"
#include "transports/stdio.h"

namespace rex::cli {
namespace {

Task<int> serve_agent(ClientSide& side, Client service, std::unique_ptr<Transport> transport,
                      std::unique_ptr<mcp::Server>& server) {
  server = std::make_unique<mcp::Server>(service, std::string(methods::version));
  side.hear([&server](const std::string& method, const nlohmann::json& params) { server->hear(method, params); });
  rpc::Connection::Options options;
  options.log = [](std::string_view line) { spdlog::info("{}", line); };
  const auto client =
      std::make_shared<rpc::Connection>(side.executor(), std::move(transport), *server, std::move(options));
  co_await mcp::serve(client, service);
  co_return service->is_closed() ? 1 : 0;
}

}  // namespace

int mcp(const Where& where) {
  if (isatty(STDIN_FILENO) != 0) {
    std::fputs(
        "rex-rpc: mcp is spoken by an agent's program, not by a person; `rex-rpc mcp --help` says how to tell it\n",
        stderr);
    return 2;
  }
  std::unique_ptr<mcp::Server> server;  // outlives the loop, as its calls may
  return with_client(where, [&server](ClientSide& side, Client service) {
    return serve_agent(side, service, transports::take_over_stdio(side.executor()), server);
  });
}

}  // namespace rex::cli
