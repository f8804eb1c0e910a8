#include "methods/logout.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace rex::methods {
namespace {

namespace fs = std::filesystem;

std::string own_cgroups() {
  std::ifstream file("/proc/self/cgroup");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string own_user() {
  const passwd* const user = getpwuid(geteuid());
  return user != nullptr ? user->pw_name : "";
}

/// The configuration in the order in which later lines win (logind.conf(5)): the main file, then the drop-ins of all
/// directories by their names, of which /etc has the last word.
std::vector<fs::path> configuration() {
  std::map<fs::path, fs::path> drop_ins;
  for (const char* const place : {"/usr/lib", "/run", "/etc"}) {
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(fs::path(place) / "systemd/logind.conf.d", missing)) {
      if (entry.path().extension() == ".conf") {
        drop_ins[entry.path().filename()] = entry.path();
      }
    }
  }
  std::vector<fs::path> all{"/usr/lib/systemd/logind.conf", "/etc/systemd/logind.conf"};
  for (const auto& [name, path] : drop_ins) {
    all.push_back(path);
  }
  return all;
}

bool is_yes(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  return value == "yes" || value == "y" || value == "true" || value == "t" || value == "on" || value == "1";
}

bool has_word(std::string_view words, std::string_view word) {
  const std::string padded = " " + std::string(words) + " ";
  return !word.empty() && padded.find(" " + std::string(word) + " ") != std::string::npos;
}

/// Whether logind ends the sessions of this user with all that is in them.
bool kills_user_processes(const std::string& user) {
  bool kills = false;
  std::string only;
  std::string excluded = "root";
  for (const fs::path& path : configuration()) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const std::size_t equals = line.find('=');
      if (equals == std::string::npos || line.starts_with('#') || line.starts_with(';')) {
        continue;
      }
      const std::string value = line.substr(equals + 1);
      const std::string name = line.substr(0, equals);
      if (name == "KillUserProcesses") {
        kills = is_yes(value);
      } else if (name == "KillOnlyUsers") {
        only = value;
      } else if (name == "KillExcludeUsers") {
        excluded = value;
      }
    }
  }
  return kills && (only.empty() || has_word(only, user)) && !has_word(excluded, user);
}

bool lingers(const std::string& user) {
  return !user.empty() && access(("/var/lib/systemd/linger/" + user).c_str(), F_OK) == 0;
}

}  // namespace

bool survives_logout() {
  if (access("/run/systemd/system", F_OK) != 0) {
    return true;  // nobody keeps account of logins
  }
  const std::string cgroups = own_cgroups();
  const std::string user = own_user();
  if (cgroups.empty() || user.empty()) {
    return false;
  }
  if (cgroups.find("/user@") != std::string::npos) {  // below the user's own manager, which ends with the last login
    return lingers(user);
  }
  return cgroups.find("/session-") == std::string::npos || !kills_user_processes(user);
}

}  // namespace rex::methods
