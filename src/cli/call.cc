// `rex-rpc call METHOD [JSON]` and `rex-rpc run COMMAND…`.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "base/fd.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/site.h"
#include "transports/stdio.h"

namespace rex::cli {
namespace {

using nlohmann::json;

// How long a copy waits for more before it looks whether the command has ended; only background processes that keep the
// output open make it wait.
constexpr int look_ms = 200;

Task<int> call_and_print(Client client, std::string method, json params) {
  const json result = co_await client->call(std::move(method), std::move(params));
  const std::string text = result.dump(2) + "\n";
  write_all(STDOUT_FILENO, text, "cannot print the result");
  co_return 0;
}

/// One run of a command, while its streams are copied.
struct Copying {
  std::string session;
  bool command_ended = false;
  bool failed = false;
  int open = 0;  // streams not yet copied to their end
  Event changed;
};

/// Copies one stream of the session to a descriptor, until it or the command has ended and nothing is left in it.
Task<> copy_stream(Site site, std::string stream, int to, std::shared_ptr<Copying> copying) {
  std::int64_t offset = 0;
  bool more = true;
  while (more) {
    const bool last = copying->command_ended;
    json params{{"session", copying->session}, {"stream", stream}, {"offset", offset}, {"encoding", "base64"}};
    params["waitMs"] = last ? 0 : look_ms;
    const json read = co_await site.call("session/read", std::move(params));
    const std::string bytes = from_base64(read["data"].get<std::string>()).value_or("");
    write_all(to, bytes, "cannot print output");
    offset = read["next"];
    more = !read["eof"].get<bool>() && !(last && bytes.empty());
  }
}

/// Our own standard input becomes the command's. A terminal is left alone: the command gets no input from it.
Task<> copy_input(Site site, std::string session) {
  const Executor executor = site.client->executor();
  std::unique_ptr<Transport> input;
  if (isatty(STDIN_FILENO) == 0) {
    input = transports::standard_input(executor);
  }
  char buffer[64 * 1024];
  std::size_t n = 0;
  do {
    n = input ? co_await input->read_some(buffer) : 0;
    std::string data(buffer, n);
    while (!data.empty() || n == 0) {
      json params{{"session", session}, {"data", to_base64(data)}, {"encoding", "base64"}, {"eof", n == 0}};
      const json written = co_await site.call("session/write", std::move(params));
      if (n == 0) {
        break;
      }
      data.erase(0, written["accepted"].get<std::size_t>());
    }
  } while (n != 0);
}

/// Copies until the command has ended, which is when its exit code is known.
Task<int> copy_to_end(Site site, std::string session) {
  json exit{{"session", session}, {"any", {{{"exit", true}}}}};
  const json waited = co_await site.call("session/wait", std::move(exit));
  const json& result = waited["result"];
  if (result["exitCode"].is_number()) {
    co_return result["exitCode"].get<int>();
  }
  const std::string name = result["signal"].is_string() ? result["signal"].get<std::string>() : "?";
  std::fprintf(stderr, "rex-rpc: ended by signal %s\n", name.c_str());
  for (int number = 1; number < NSIG; ++number) {
    if (sigabbrev_np(number) != nullptr && name == sigabbrev_np(number)) {
      co_return 128 + number;
    }
  }
  co_return 1;
}

json argv_of(const std::vector<std::string>& words) {
  json argv = json::array();
  for (const std::string& word : words) {
    argv.push_back(to_base64(word));
  }
  return argv;
}

Task<int> run_and_copy(Client client, std::string host, std::vector<std::string> words) {
  const Site site = co_await reach(client, std::move(host));
  if (words.size() == 1) {
    words = {"/bin/sh", "-c", words[0]};
  }
  json session{{"argvBytes", argv_of(words)}, {"tty", false}, {"profile", "human"}};
  const json created = co_await site.call("session/create", std::move(session));
  const auto copying = std::make_shared<Copying>();
  copying->session = created["session"];
  const auto copied = [copying, client](std::exception_ptr failure) {
    --copying->open;
    copying->changed.notify();
    if (failure) {  // whoever read our output is gone, and the command with it
      copying->failed = true;
      client->close("the output cannot be written");
    }
  };
  copying->open = 2;
  const Executor executor = client->executor();
  spawn(executor, copy_stream(site, "stdout", STDOUT_FILENO, copying), copied);
  spawn(executor, copy_stream(site, "stderr", STDERR_FILENO, copying), copied);
  spawn(executor, copy_input(site, copying->session),
        [](std::exception_ptr) {});  // the command need not read what we have
  int code = 128 + SIGPIPE;
  try {
    code = co_await copy_to_end(site, copying->session);
  } catch (const Error&) {
    if (!copying->failed) {
      throw;
    }
  }
  copying->command_ended = true;
  Waiter waiter(executor);
  waiter.subscribe(copying->changed);
  while (copying->open != 0) {
    co_await waiter.until(never);
  }
  co_return code;
}

}  // namespace

int call(const Where& where, const std::string& method, const std::string& params) {
  json parsed = json::parse(params.empty() ? "{}" : params, nullptr, false);
  if (parsed.is_discarded() || !is_utf8(method)) {
    std::fprintf(stderr, "rex-rpc: the %s: %s\n", parsed.is_discarded() ? "params are not JSON" : "method is no name",
                 printable(parsed.is_discarded() ? params : method).c_str());
    return 2;
  }
  return with_client(where, [&](ClientSide&, Client client) { return call_and_print(client, method, parsed); });
}

int run(const Where& where, std::vector<std::string> words) {
  return with_client(where, [&](ClientSide&, Client client) { return run_and_copy(client, where.host, words); });
}

}  // namespace rex::cli
