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
#include "shell/proc_file.h"

namespace rex::shell {
namespace {

std::string proc_file(pid_t pid, const char* name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  return slurp(path);
}

struct Stat {
  char state = 0;
  pid_t parent = 0;
  pid_t group = 0;
  int threads = 0;
  unsigned long long start = 0;
};

Stat stat_of(pid_t pid) {
  Stat stat;
  const std::string text = proc_file(pid, "stat");
  const std::size_t end = text.rfind(')');  // the name in parentheses may hold anything
  if (end != std::string::npos) {
    std::sscanf(text.c_str() + end + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %llu",
                &stat.state, &stat.parent, &stat.group, &stat.threads, &stat.start);
  }
  return stat;
}

/// A process whose first thread has ended looks like a zombie while the others go on.
bool lives(const Stat& stat) { return stat.state != 0 && stat.state != 'X' && (stat.state != 'Z' || stat.threads > 1); }

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

std::vector<pid_t> children(pid_t parent) {
  std::vector<pid_t> all;
  add_children(parent, all);
  return all;
}

std::vector<pid_t> descendants(pid_t root, bool (*spared)(pid_t pid)) {
  constexpr pid_t dead = 0;
  constexpr int max_looks = 3;
  std::vector<pid_t> all;
  for (int look = 1; look <= max_looks; ++look) {
    const std::vector<pid_t> first = children(root);
    all = first;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (spared != nullptr && spared(all[i])) {
        all[i] = dead;
      } else if (lives(stat_of(all[i]))) {
        add_children(all[i], all);
      } else {
        all[i] = dead;
      }
    }
    // Whoever was orphaned while we looked, as a child of setsid is, has moved to where we looked first.
    if (children(root) == first) {
      break;
    }
  }
  std::erase(all, dead);
  return all;
}

bool is_alive(pid_t pid) { return lives(stat_of(pid)); }

bool is_asleep(pid_t pid) { return stat_of(pid).state == 'S'; }

bool is_running(pid_t pid) {
  const char state = stat_of(pid).state;
  return state == 'R' || state == 'D';
}

std::optional<std::chrono::nanoseconds> run_time(pid_t pid) {
  unsigned long long run = 0;
  return std::sscanf(proc_file(pid, "schedstat").c_str(), "%llu", &run) == 1
             ? std::optional(std::chrono::nanoseconds(run))
             : std::nullopt;
}

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
