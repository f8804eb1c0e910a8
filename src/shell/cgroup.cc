#include "shell/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "shell/proc_file.h"

namespace rex::shell {
namespace {

constexpr std::string_view our_name = "rex-rpc-";

/// The text up to `end`, which is taken off the front of `rest` together with it.
std::string_view cut(std::string_view& rest, std::string_view end) {
  const std::size_t at = std::min(rest.find(end), rest.size());
  const std::string_view piece = rest.substr(0, at);
  rest.remove_prefix(std::min(at + end.size(), rest.size()));
  return piece;
}

/// mountinfo writes blanks and backslashes as \ooo.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() && std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// The way from the mount's root to the cgroup `own`; nullopt where it does not lie below.
std::optional<std::string> below(const std::string& root, const std::string& own) {
  const std::string top = root == "/" ? "" : root;
  if (!own.starts_with(top) || own.starts_with("/..")) {  // "/..": outside of our cgroup namespace
    return std::nullopt;
  }
  std::string rest = own.substr(top.size());
  if (!rest.empty() && rest.front() != '/') {
    return std::nullopt;
  }
  return rest == "/" ? "" : rest;
}

bool has_word(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    std::string_view line = cut(text, "\n");
    while (!line.empty()) {
      if (cut(line, " ") == word) {
        return true;
      }
    }
  }
  return false;
}

std::optional<std::int64_t> number_in(const std::string& file) {
  const std::string text = slurp(file);
  std::int64_t value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() ? std::optional(value)
                                                                                          : std::nullopt;  // "max"
}

void lower(std::optional<std::int64_t>& limit, const std::optional<std::int64_t>& other) {
  if (other && (!limit || *limit > *other)) {
    limit = other;
  }
}

bool write_to(const std::string& file, std::string_view text) {
  const Fd fd(open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool may_make_in(const std::string& directory) {
  return access(directory.c_str(), W_OK | X_OK) == 0 &&
         access((directory + "/cgroup.procs").c_str(), W_OK) == 0;  // needed of the one above both, to move a process
}

std::vector<std::string> directories_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(opendir(directory.c_str()), closedir);
  while (const dirent* entry = list ? readdir(list.get()) : nullptr) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
      names.emplace_back(entry->d_name);
    }
  }
  return names;
}

/// With what was made inside it. The kernel keeps whatever holds a process.
bool remove_cgroup(const std::string& directory) {
  for (const std::string& name : directories_in(directory)) {
    remove_cgroup(directory + "/" + name);
  }
  return rmdir(directory.c_str()) == 0 || errno == ENOENT;
}

/// Removes what guardians left that were killed.
void sweep(const std::string& directory) {
  for (const std::string& name : directories_in(directory)) {
    const bool is_ours = name.starts_with(our_name);
    const long maker = is_ours ? std::strtol(name.c_str() + our_name.size(), nullptr, 10) : 0;
    if (maker > 0 && (maker == getpid() || (::kill(static_cast<pid_t>(maker), 0) != 0 && errno == ESRCH))) {
      remove_cgroup(directory + "/" + name);
    }
  }
}

}  // namespace

std::vector<std::string> cgroups_upwards(std::string_view mountinfo, std::string_view own) {
  std::optional<std::string> path;
  while (!own.empty() && !path) {
    const std::string_view line = cut(own, "\n");
    if (line.starts_with("0::/")) {  // all others are of cgroup v1
      path = line.substr(3);
    }
  }
  std::vector<std::string> all;
  while (path && !mountinfo.empty() && all.empty()) {
    std::string_view line = cut(mountinfo, "\n");
    std::string_view mount = cut(line, " - ");
    if (cut(line, " ") != "cgroup2") {
      continue;
    }
    for (int unused = 0; unused < 3; ++unused) {
      cut(mount, " ");
    }
    const std::string root = unescape(cut(mount, " "));
    const std::string point = unescape(cut(mount, " "));
    if (std::optional<std::string> rest = below(root, *path)) {
      all.push_back(point + *rest);
      while (!rest->empty()) {
        rest->resize(rest->rfind('/'));
        all.push_back(point + *rest);
      }
    }
  }
  return all;
}

std::optional<CgroupPlace> find_cgroup_place(const std::vector<std::string>& upwards, const TreeLimits& wanted) {
  std::optional<CgroupPlace> best;
  int most = 0;
  TreeLimits left;  // of the cgroups on the way, which would no longer hold the tree
  for (const std::string& directory : upwards) {
    const std::string counted = slurp(directory + "/cgroup.subtree_control");
    const bool processes = has_word(counted, "pids");
    const bool memory = has_word(counted, "memory");
    const int count = (processes && wanted.processes ? 1 : 0) + (memory && wanted.memory_bytes ? 1 : 0);
    if (count > most && may_make_in(directory)) {
      best = CgroupPlace{directory, left};
      lower(best->limits.processes, processes ? wanted.processes : std::nullopt);
      lower(best->limits.memory_bytes, memory ? wanted.memory_bytes : std::nullopt);
      most = count;
    }
    const std::size_t name = directory.rfind('/') + 1;
    if (most == wanted.count() || directory.compare(name, our_name.size(), our_name) == 0) {
      break;
    }
    lower(left.processes, number_in(directory + "/pids.max"));
    lower(left.memory_bytes, number_in(directory + "/memory.max"));
  }
  return best;
}

std::optional<Cgroup> Cgroup::make(const TreeLimits& wanted) {
  const std::optional<CgroupPlace> place =
      find_cgroup_place(cgroups_upwards(slurp("/proc/self/mountinfo"), slurp("/proc/self/cgroup")), wanted);
  if (!place) {
    return std::nullopt;
  }
  sweep(place->directory);
  Cgroup made(place->directory + "/" + std::string(our_name) + std::to_string(getpid()));
  if (mkdir(made.directory_.c_str(), 0755) != 0) {
    return std::nullopt;
  }
  if (!made.set(place->limits)) {
    remove_cgroup(made.directory_);
    return std::nullopt;
  }
  return made;
}

bool Cgroup::set(const TreeLimits& limits) {
  const auto write_limit = [this](const char* name, const std::optional<std::int64_t>& limit) {
    return !limit || write_to(directory_ + name, std::to_string(*limit));
  };
  if (!write_limit("/pids.max", limits.processes) || !write_limit("/memory.max", limits.memory_bytes)) {
    return false;
  }
  if (limits.memory_bytes) {
    write_to(directory_ + "/memory.swap.max", "0");  // the file is there only where swap is counted
  }
  limits_.processes = number_in(directory_ + "/pids.max");
  limits_.memory_bytes = number_in(directory_ + "/memory.max");
  entrance_.reset(open((directory_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  // In a threaded subtree no process may be put into it.
  return entrance_ && slurp(directory_ + "/cgroup.type") == "domain\n";
}

void Cgroup::kill() const { write_to(directory_ + "/cgroup.kill", "1"); }

bool Cgroup::remove() const { return remove_cgroup(directory_); }

}  // namespace rex::shell
