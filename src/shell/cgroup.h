// A cgroup of a program's own, in which the kernel counts the whole tree together: cgroup v2 as the kernel's
// admin-guide/cgroup-v2.rst describes its files. Passive; knows no session, no JSON, and not who is put into it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "shell/limits.h"

namespace rex::shell {

/// The directory of our own cgroup and those above it, nearest first, as far as the mount shows them. From the texts of
/// /proc/self/mountinfo and /proc/self/cgroup; empty where no cgroup2 mount holds our own.
std::vector<std::string> cgroups_upwards(std::string_view mountinfo, std::string_view own);

/// A cgroup that another may be made in, and what the kernel would count there.
struct CgroupPlace {
  std::string directory;
  TreeLimits limits;  // to be set: what is wanted, and no more than any cgroup allows that the tree thereby leaves
};

/// The first of `upwards` where everything wanted is counted, else the one where most is; nullopt where nothing is. A
/// cgroup with processes of its own counts nothing below it, so it is rarely ours. What a machine has not set up is not
/// changed, and the cgroup of another session (rex-rpc in rex-rpc) is not left.
std::optional<CgroupPlace> find_cgroup_place(const std::vector<std::string>& upwards, const TreeLimits& wanted);

/// Lives in the process that watches over the tree, and stays behind when that does not call `remove`.
class Cgroup {
 public:
  /// Makes `rex-rpc-<our pid>` in the best place, after removing those beside it whose maker is dead. nullopt where
  /// nothing of `wanted` can be counted.
  static std::optional<Cgroup> make(const TreeLimits& wanted);

  /// As the kernel took them: whole pages of memory.
  [[nodiscard]] const TreeLimits& limits() const { return limits_; }

  /// Whoever writes "0" to it moves into the cgroup. Close-on-exec.
  [[nodiscard]] int entrance() const { return entrance_.get(); }
  void close_entrance() { entrance_.reset(); }

  /// Kills all that are in it, and whom they fork meanwhile. Does nothing before Linux 5.14.
  void kill() const;

  /// True when it is gone, which it cannot be as long as a process is in it.
  [[nodiscard]] bool remove() const;

 private:
  explicit Cgroup(std::string directory) : directory_(std::move(directory)) {}
  bool set(const TreeLimits& limits);

  std::string directory_;
  TreeLimits limits_;
  Fd entrance_;
};

}  // namespace rex::shell
