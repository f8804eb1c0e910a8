// What a program and everything it starts may use, as the kernel's resource limits. Each process is held to them by
// itself; only `processes` counts together, all of the user's. Knows no session and no JSON.
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

/// One call of setrlimit(2).
struct Rlimit {
  std::int32_t resource;
  rlimit value;
};

/// What is to be set for `limits`. Throws InvalidParams that names the member where it is above this instance's own
/// hard limit, which nobody may raise.
std::vector<Rlimit> rlimits_for(const ResourceLimits& limits);

/// `limits` as they are in force: CPU time in whole seconds.
ResourceLimits in_force(ResourceLimits limits);

/// Whether the kernel counts the caller's processes at all: it does not for root, nor with some capabilities, and only
/// a try tells. Forks.
bool processes_are_counted();

}  // namespace rex::shell
