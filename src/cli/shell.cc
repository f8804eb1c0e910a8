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

/// The login shell of the user there, as ssh would start it.
Task<json> far_shell(Site site) {
  const std::size_t slash = site.host.rfind('/');
  json host{{"name", site.host.substr(slash + 1)}};
  host["host"] = slash == std::string::npos ? "" : site.host.substr(0, slash);
  const json info = co_await site.client->call("host/info", std::move(host));
  const json machine = info.value("machine", json::object());
  const std::string shell = machine.value("shell", json()).is_string() ? machine["shell"].get<std::string>() : "";
  co_return json{shell.starts_with('/') ? shell : "/bin/sh", "-l"};
}

Task<int> attend_own(ClientSide& side, Client client, std::string host) {
  const Site site = co_await reach(std::move(client), std::move(host));
  const RawTerminal::Size size = RawTerminal::size();
  json params{{"profile", "human"}, {"rows", size.rows}, {"cols", size.cols}};
  params["argv"] = json{user_shell(), "-i"};
  if (!site.host.empty()) {
    params["argv"] = co_await far_shell(site);
  }
  json info = co_await site.call("session/create", std::move(params));
  const std::string name = info.at("session");
  const auto person = std::make_shared<Person>(side, site, std::move(info), name, true);
  co_return co_await person->attend(false);
}

Task<int> attend_other(ClientSide& side, Where where, ShellOptions options) {
  Found found = co_await find_session(side, where, options.session);
  if (where.address.empty()) {  // else the dial has greeted
    co_await greet(found.client);
  }
  const std::string name = found.full_name();
  const auto person = std::make_shared<Person>(side, Site{found.client, ""}, std::move(found.info), name, false);
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
    return with_client(where, [&](ClientSide& side, Client client) { return attend_own(side, client, where.host); });
  }
  return without_instance([&](ClientSide& side) { return attend_other(side, where, options); });
}

}  // namespace rex::cli
