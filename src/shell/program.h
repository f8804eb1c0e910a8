// A program we started, seen from our side: its process id, its end with the true wait status, and the end of its
// whole tree. A passive handle over the guardian's control socket; knows nothing of shells, terminals or journals.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "shell/guardian.h"
#include "shell/nursery.h"
#include "shell/process_tree.h"

namespace rex::shell {

struct ProgramExit {
  int status;  // as of wait4(2)
  rusage usage;

  [[nodiscard]] std::optional<int> exit_code() const;
  [[nodiscard]] std::optional<int> signal() const;
  [[nodiscard]] bool core_dumped() const;
};

struct TreeEnd {
  int reached;                     // index of the last step that was sent, the number of steps for KILL, -1: none
  std::vector<Process> survivors;  // empty is the proof that the tree is gone
};

/// Destroying it ends the whole tree at once with KILL; the guardian sees to that without us.
class Program : public std::enable_shared_from_this<Program> {
 public:
  /// Starts `launch` with these standard descriptors (not owned). Throws StartFailed `{errno, name, path}` when the
  /// program could not be executed: then no process is left.
  static Task<std::shared_ptr<Program>> start(Executor executor, Nursery& nursery, Launch launch, int in, int out,
                                              int err);
  ~Program();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The subreaper above the program: all that descends from the program is below it.
  [[nodiscard]] pid_t guardian() const { return guardian_; }
  /// What a cgroup of its own holds the tree to.
  [[nodiscard]] const TreeLimits& counted() const { return counted_; }
  [[nodiscard]] const std::optional<ProgramExit>& exit() const { return exit_; }
  /// Whether it has ended; also when its guardian was killed, and nobody will ever know how (`exit` is then empty).
  [[nodiscard]] bool ended() const { return exit_ || gone_; }
  /// Fires at the program's end.
  Event& exited() { return exited_; }

  /// Every living process of the tree: the program itself, if it lives, and all below it.
  [[nodiscard]] std::vector<pid_t> tree() const { return descendants(guardian_); }

  /// Ends the tree: each step's signal to all, its grace, then KILL. Concurrent calls wait their turn.
  Task<TreeEnd> end_tree(std::vector<EndStep> steps);

  /// Lets every process live on without us.
  void release();

 private:
  Program(Executor executor, Fd control);
  Task<> watch();
  void take_reports();

  std::unique_ptr<AsyncFd> control_;
  Executor executor_;
  pid_t pid_ = -1;
  pid_t guardian_ = -1;
  TreeLimits counted_;
  std::optional<ProgramExit> exit_;
  Event exited_;
  std::optional<Report> first_;  // started or failed
  bool gone_ = false;            // the guardian itself is gone
  std::vector<pid_t> orphans_;   // what was below the program when its guardian was found gone
  bool ending_ = false;
  std::optional<Report> tree_ended_;
  Event changed_;
};

/// Names the living processes of `pids`.
std::vector<Process> name_processes(const std::vector<pid_t>& pids);

}  // namespace rex::shell
