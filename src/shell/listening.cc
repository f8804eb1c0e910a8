#include "shell/listening.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace rex::shell {
namespace {

constexpr unsigned listen_state = 0x0A;

using Inodes = std::set<unsigned long>;

std::string link_target(const std::string& path) {
  char target[64];
  const ssize_t n = readlink(path.c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<std::size_t>(n)) : std::string();
}

/// Adds the sockets of one table, as the process `pid` sees it, that listen on `port`.
void add_listeners(pid_t pid, const char* table, std::uint16_t port, Inodes& inodes) {
  char line[256];
  std::snprintf(line, sizeof line, "/proc/%d/net/%s", pid, table);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(line, "re"), std::fclose);
  if (!file || std::fgets(line, sizeof line, file.get()) == nullptr) {  // the first line names the columns
    return;
  }
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    unsigned local = 0;
    unsigned state = 0;
    unsigned long inode = 0;
    const int fields = std::sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu",
                                   &local, &state, &inode);
    if (fields != 3 || state != listen_state) {
      break;  // all that listen come first; of what follows there may be very many
    }
    if (local == port) {
      inodes.insert(inode);
    }
  }
}

bool holds_one_of(pid_t pid, const Inodes& inodes) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd/";
  const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(opendir(folder.c_str()), closedir);
  while (const dirent* each = descriptors ? readdir(descriptors.get()) : nullptr) {
    unsigned long inode = 0;
    if (std::sscanf(link_target(folder + each->d_name).c_str(), "socket:[%lu]", &inode) == 1 &&
        inodes.contains(inode)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool listens_on(const std::vector<pid_t>& pids, std::uint16_t port) {
  std::map<std::string, Inodes> namespaces;
  for (const pid_t pid : pids) {
    const std::string name = link_target("/proc/" + std::to_string(pid) + "/ns/net");
    const auto [at, is_new] = namespaces.try_emplace(name);
    if (is_new) {
      add_listeners(pid, "tcp", port, at->second);
      add_listeners(pid, "tcp6", port, at->second);
    }
    if (!at->second.empty() && holds_one_of(pid, at->second)) {
      return true;
    }
  }
  return false;
}

}  // namespace rex::shell
