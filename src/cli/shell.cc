// `rex-rpc shell`: a person's terminal on a shell of their own, or on a session that somebody else drives.
#include <pwd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cli/commands.h"
#include "cli/instances.h"
#include "cli/person.h"

namespace rex::cli {
namespace {

using nlohmann::json;

std::string user_shell() {
  if (const char* const shell = std::getenv("SHELL"); shell != nullptr && shell[0] == '/') {
    return shell;
  }
  const passwd* const user = getpwuid(getuid());
  return user != nullptr && user->pw_shell[0] == '/' ? user->pw_shell : "/bin/sh";
}

Task<int> attend_own(ClientSide& side, Client client) {
  const RawTerminal::Size size = RawTerminal::size();
  json params{{"argv", {user_shell(), "-i"}}, {"profile", "human"}, {"rows", size.rows}, {"cols", size.cols}};
  json info = co_await client->call("session/create", std::move(params));
  const std::string name = info.at("session");
  const auto person = std::make_shared<Person>(side, client, std::move(info), name, true);
  co_return co_await person->attend(false);
}

Task<int> attend_other(ClientSide& side, std::string address, ShellOptions options) {
  Found found = co_await find_session(side, std::move(address), options.session);
  const std::string name = found.full_name();
  const auto person = std::make_shared<Person>(side, found.client, std::move(found.info), name, false);
  co_return co_await person->attend(options.takeover);
}

}  // namespace

int shell(const Where& where, ShellOptions options) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    std::fputs("rex-rpc: shell needs a terminal; `rex-rpc logs --follow` does not, and `rex-rpc run` runs commands\n",
               stderr);
    return 2;
  }
  if (options.session.empty()) {
    return with_client(where, [](ClientSide& side, Client client) { return attend_own(side, std::move(client)); });
  }
  return without_instance([&](ClientSide& side) { return attend_other(side, where.address, options); });
}

}  // namespace rex::cli
