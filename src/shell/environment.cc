#include "shell/environment.h"

#include <unistd.h>

#include <string_view>
#include <utility>

namespace rex::shell {
namespace {

using Variables = std::map<std::string, std::string>;

// What keeps programs from opening a pager, an editor or a question where nobody sits. A caller's `env` outranks it,
// and `session/info` and `env` show it.
const std::pair<const char*, const char*> agent_profile[] = {
    {"TERM", "dumb"},
    {"NO_COLOR", "1"},
    {"PAGER", "cat"},
    {"MANPAGER", "cat"},
    {"GIT_PAGER", "cat"},
    {"SYSTEMD_PAGER", "cat"},
    {"EDITOR", "false"},
    {"VISUAL", "false"},
    {"GIT_EDITOR", "false"},
    {"GIT_TERMINAL_PROMPT", "0"},
    {"DEBIAN_FRONTEND", "noninteractive"},
    {"PIP_NO_INPUT", "1"},
    {"NPM_CONFIG_YES", "true"},  // npx and npm init ask "Ok to proceed?"
};

}  // namespace

std::vector<std::string> make_environment(bool clear, const std::map<std::string, std::optional<std::string>>& changes,
                                          std::optional<Profile> profile) {
  Variables variables;
  for (char** entry = clear ? nullptr : environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t at = text.find('=');
    if (at != std::string_view::npos && !text.starts_with("REX_RPC_")) {
      variables[std::string(text.substr(0, at))] = text.substr(at + 1);
    }
  }
  // A dash that finds it exported keeps it so, and every program would see the last word of the command before it.
  variables.erase("_");
  if (profile == Profile::agent) {
    for (const auto& [name, value] : agent_profile) {
      variables[name] = value;
    }
  } else if (profile == Profile::human) {
    variables.try_emplace("TERM", "xterm-256color");
  }
  for (const auto& [name, value] : changes) {
    if (value) {
      variables[name] = *value;
    } else {
      variables.erase(name);
    }
  }
  std::vector<std::string> list;
  list.reserve(variables.size());
  for (const auto& [name, value] : variables) {
    list.push_back(name + "=" + value);
  }
  return list;
}

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

}  // namespace rex::shell
