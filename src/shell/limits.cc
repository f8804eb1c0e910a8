#include "shell/limits.h"

#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/error.h"

namespace rex::shell {
namespace {

// From the signal that a program may still catch (SIGXCPU) to SIGKILL.
constexpr rlim_t last_second = 1;

std::int64_t whole_seconds(std::int64_t milliseconds) { return (milliseconds + 999) / 1000; }

rlim_t own_hard_limit(int resource) {
  rlimit own{};
  getrlimit(static_cast<__rlimit_resource>(resource), &own);
  return own.rlim_max;
}

void add(std::vector<Rlimit>& all, int resource, std::optional<std::int64_t> wanted, const char* member) {
  if (!wanted) {
    return;
  }
  const auto value = static_cast<rlim_t>(*wanted);
  const rlim_t own = own_hard_limit(resource);
  if (own != RLIM_INFINITY && value > own) {
    throw invalid_params(
        member, std::to_string(value) + " is above what this instance itself may have, " + std::to_string(own));
  }
  all.push_back({resource, {value, value}});
}

}  // namespace

std::vector<Rlimit> rlimits_for(const ResourceLimits& limits) {
  std::vector<Rlimit> all;
  std::optional<std::int64_t> seconds;
  if (limits.cpu_ms) {
    seconds = whole_seconds(*limits.cpu_ms);
  }
  add(all, RLIMIT_CPU, seconds, "limits.cpuMs");
  if (seconds && own_hard_limit(RLIMIT_CPU) > all.back().value.rlim_max) {
    all.back().value.rlim_max += last_second;
  }
  // Not RLIMIT_AS: node, Go and Java reserve far more addresses than they ever use.
  add(all, RLIMIT_DATA, limits.memory_bytes, "limits.memoryBytes");
  add(all, RLIMIT_NPROC, limits.processes, "limits.processes");
  add(all, RLIMIT_NOFILE, limits.open_files, "limits.openFiles");
  return all;
}

TreeLimits tree_limits_in(const std::vector<Rlimit>& rlimits) {
  TreeLimits limits;
  for (const Rlimit& each : rlimits) {
    if (each.resource == RLIMIT_NPROC) {
      limits.processes = static_cast<std::int64_t>(each.value.rlim_cur);
    } else if (each.resource == RLIMIT_DATA) {
      limits.memory_bytes = static_cast<std::int64_t>(each.value.rlim_cur);
    }
  }
  return limits;
}

void remove_counted(std::vector<Rlimit>& rlimits, const TreeLimits& counted) {
  std::erase_if(rlimits, [&counted](const Rlimit& each) {
    return (each.resource == RLIMIT_NPROC && counted.processes) ||
           (each.resource == RLIMIT_DATA && counted.memory_bytes);
  });
}

ResourceLimits in_force(ResourceLimits limits, const TreeLimits& counted) {
  if (limits.cpu_ms) {
    limits.cpu_ms = whole_seconds(*limits.cpu_ms) * 1000;
  }
  if (limits.memory_bytes && counted.memory_bytes) {
    limits.memory_bytes = counted.memory_bytes;
  }
  if (limits.processes && counted.processes) {
    limits.processes = counted.processes;
  }
  return limits;
}

bool processes_are_counted() {
  rlimit before{};
  getrlimit(RLIMIT_NPROC, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NPROC, &none);
  const pid_t pid = fork();
  if (pid == 0) {
    _exit(0);
  }
  if (pid > 0) {
    waitpid(pid, nullptr, 0);
  }
  setrlimit(RLIMIT_NPROC, &before);
  return pid < 0;
}

}  // namespace rex::shell
