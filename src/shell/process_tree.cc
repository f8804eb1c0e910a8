#include "shell/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/fd.h"

namespace rex::shell {
namespace {

/// A short /proc file, or empty. Directory order of /proc and partial reads do not matter to callers.
std::string slurp(const char* path) {
  std::string text;
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (fd) {
    char buffer[4096];
    ssize_t n = 0;
    while ((n = read(fd.get(), buffer, sizeof buffer)) > 0) {
      text.append(buffer, static_cast<std::size_t>(n));
    }
  }
  return text;
}

std::string proc_file(pid_t pid, const char* name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  return slurp(path);
}

struct Stat {
  char state = 0;
  pid_t parent = 0;
  pid_t group = 0;
  unsigned long long start = 0;
};

Stat stat_of(pid_t pid) {
  Stat stat;
  const std::string text = proc_file(pid, "stat");
  const std::size_t end = text.rfind(')');  // the name in parentheses may hold anything
  if (end != std::string::npos) {
    std::sscanf(text.c_str() + end + 1,
                " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &stat.state,
                &stat.parent, &stat.group, &stat.start);
  }
  return stat;
}

bool lives(const Stat& stat) { return stat.state != 0 && stat.state != 'Z' && stat.state != 'X'; }

/// Children of every thread of `pid`: a child belongs to the thread that forked it.
void add_children(pid_t pid, std::vector<pid_t>& all) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(path), closedir);
  while (const dirent* task = tasks ? readdir(tasks.get()) : nullptr) {
    if (task->d_name[0] == '.') {
      continue;
    }
    std::snprintf(path, sizeof path, "/proc/%d/task/%.10s/children", pid, task->d_name);
    const std::string list = slurp(path);
    const char* at = list.c_str();
    while (*at != '\0') {
      char* end = nullptr;
      const long child = std::strtol(at, &end, 10);
      if (end == at) {
        break;
      }
      all.push_back(static_cast<pid_t>(child));
      at = *end == ' ' ? end + 1 : end;
    }
  }
}

}  // namespace

std::vector<pid_t> descendants(pid_t root) {
  std::vector<pid_t> all;
  add_children(root, all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    add_children(all[i], all);
  }
  std::erase_if(all, [](pid_t pid) { return !lives(stat_of(pid)); });
  return all;
}

bool is_alive(pid_t pid) { return lives(stat_of(pid)); }

bool is_asleep(pid_t pid) { return stat_of(pid).state == 'S'; }

bool is_stopped(pid_t pid) { return stat_of(pid).state == 'T'; }

std::string command_of(pid_t pid) {
  std::string name = proc_file(pid, "comm");
  if (!name.empty() && name.back() == '\n') {
    name.pop_back();
  }
  return name;
}

bool signal_descendant(pid_t pid, int signal) {
  const Stat before = stat_of(pid);
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // The number may have been given to a stranger between the look and the open; a pidfd cannot change hands.
  if (!process || !lives(before) || stat_of(pid).start != before.start) {
    return false;
  }
  return syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

std::vector<pid_t> group_members(pid_t root, pid_t group) {
  std::vector<pid_t> members = descendants(root);
  std::erase_if(members, [group](pid_t pid) { return stat_of(pid).group != group; });
  return members;
}

bool writes_to(pid_t pid, const std::string& tty_path) {
  for (const int fd : {1, 2}) {
    char link[64];
    char target[256];
    std::snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, fd);
    const ssize_t n = readlink(link, target, sizeof target);
    if (n > 0 && std::string_view(target, static_cast<std::size_t>(n)) == tty_path) {
      return true;
    }
  }
  return false;
}

}  // namespace rex::shell
