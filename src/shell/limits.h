// What a program and everything it starts may use, as the kernel's resource limits. Each process is held to them by
// itself; only `processes` counts together, all of the user's. A cgroup (cgroup.h) counts a tree instead, where one can
// be made. Knows no session and no JSON.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace rex::shell {

/// Absent: as this instance has it.
struct ResourceLimits {
  std::optional<std::int64_t> cpu_ms;  ///< of CPU time; the kernel counts whole seconds, so it is rounded up
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> processes;
  std::optional<std::int64_t> open_files;

  [[nodiscard]] bool any() const { return cpu_ms || memory_bytes || processes || open_files; }
};

/// What of them a cgroup holds the tree to as a whole. Absent: it does not.
struct TreeLimits {
  std::optional<std::int64_t> processes;  ///< and threads
  std::optional<std::int64_t> memory_bytes;

  [[nodiscard]] int count() const { return (processes ? 1 : 0) + (memory_bytes ? 1 : 0); }
};

/// One call of setrlimit(2).
struct Rlimit {
  std::int32_t resource;
  rlimit value;
};

/// What is to be set for `limits`. Throws InvalidParams that names the member where it is above this instance's own
/// hard limit, which nobody may raise.
std::vector<Rlimit> rlimits_for(const ResourceLimits& limits);

/// What of `rlimits` a cgroup could count instead.
TreeLimits tree_limits_in(const std::vector<Rlimit>& rlimits);

/// Leaves of `rlimits` what `counted` does not hold the tree to already.
void remove_counted(std::vector<Rlimit>& rlimits, const TreeLimits& counted);

/// `limits` as they are in force: CPU time in whole seconds, and by the cgroup's number what a cgroup counts.
ResourceLimits in_force(ResourceLimits limits, const TreeLimits& counted);

/// Whether the kernel counts the caller's processes at all: it does not for root, nor with some capabilities, and only
/// a try tells. Forks.
bool processes_are_counted();

}  // namespace rex::shell
