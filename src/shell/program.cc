#include "shell/program.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace rex::shell {

std::optional<int> ProgramExit::exit_code() const {
  return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
}

std::optional<int> ProgramExit::signal() const {
  return WIFSIGNALED(status) ? std::optional(WTERMSIG(status)) : std::nullopt;
}

bool ProgramExit::core_dumped() const { return WIFSIGNALED(status) && WCOREDUMP(status); }

std::vector<Process> name_processes(const std::vector<pid_t>& pids) {
  std::vector<Process> named;
  for (const pid_t pid : pids) {
    std::string command = command_of(pid);
    if (!command.empty()) {
      named.push_back({pid, std::move(command)});
    }
  }
  return named;
}

Program::Program(Executor executor, Fd control)
    : control_(std::make_unique<AsyncFd>(executor, std::move(control))), executor_(executor) {}

Program::~Program() = default;

namespace {

Error start_failure(const Launch& launch, const Report& report) {
  const char what = static_cast<char>(report.what);
  if (what == 'p') {
    return invalid_params("limits.processes",
                          "cannot be enforced: the kernel counts no processes of this user, and no cgroup "
                          "may be made that would");
  }
  const std::string& path = what == 'c' ? launch.cwd : launch.argv.front();
  const std::string doing = what == 'c'   ? "cannot enter the directory"
                            : what == 'x' ? "cannot execute"
                            : what == 't' ? "cannot get the terminal for"
                            : what == 'l' ? "cannot set the limits for"
                            : what == 'g' ? "cannot enter the cgroup for"
                                          : "cannot fork for";
  const Error cause = os_error(doing, report.error, path);
  Error error(Fault::StartFailed, cause.message());
  for (const auto& [name, value] : cause.facts()) {
    error = std::move(error).with(name, value);
  }
  return error;
}

}  // namespace

Task<std::shared_ptr<Program>> Program::start(Executor executor, Nursery& nursery, Launch launch, int in, int out,
                                              int err) {
  const std::shared_ptr<Program> program(new Program(executor, nursery.spawn(launch, in, out, err)));
  Waiter waiter(executor);
  waiter.subscribe(program->changed_);
  spawn(executor, program->watch());
  while (!program->first_ && !program->gone_) {
    co_await waiter.until(never);
  }
  if (!program->first_) {
    throw Error(Fault::StartFailed, "the process that starts programs died").retryable();
  }
  if (program->first_->kind == Report::failed) {
    throw start_failure(launch, *program->first_);
  }
  program->pid_ = program->first_->pid;
  program->guardian_ = program->first_->guardian;
  const auto counted = [](std::int64_t limit) { return limit != 0 ? std::optional(limit) : std::nullopt; };
  program->counted_ = {counted(program->first_->processes), counted(program->first_->memory_bytes)};
  co_return program;
}

Task<> Program::watch() {
  // The watch must not keep alive what it watches: the last owner's letting go is what ends the tree.
  const std::weak_ptr<Program> self = weak_from_this();
  AsyncFd& control = *control_;
  while (co_await control.readable()) {
    const std::shared_ptr<Program> program = self.lock();
    if (!program) {
      co_return;
    }
    program->take_reports();
    if (program->gone_) {
      co_return;
    }
  }
}

void Program::take_reports() {
  Report report{};
  ssize_t n = 0;
  while ((n = recv(control_->fd(), &report, sizeof report, MSG_DONTWAIT)) == sizeof report) {
    switch (report.kind) {
      case Report::started:
      case Report::failed: first_ = report; break;
      case Report::exited:
        exit_ = ProgramExit{report.status, report.usage};
        exited_.notify();
        break;
      case Report::tree_ended: tree_ended_ = report; break;
    }
  }
  if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
    gone_ = true;
    if (!exit_ && pid_ > 0) {  // somebody killed the guardian: what it kept together is ended as far as it can be found
      orphans_ = descendants(pid_);
      orphans_.insert(orphans_.begin(), pid_);  // first of all: a shell would still tell of its killed child
      for (const pid_t pid : orphans_) {
        signal_descendant(pid, SIGKILL);
      }
    }
    exited_.notify();
  }
  changed_.notify();
}

Task<TreeEnd> Program::end_tree(std::vector<EndStep> steps) {
  const std::shared_ptr<Program> self = shared_from_this();
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  while (ending_ && !gone_) {
    co_await waiter.until(never);
  }
  EndTree order{};
  order.count = static_cast<std::int32_t>(steps.size());
  std::copy(steps.begin(), steps.end(), order.steps);
  tree_ended_.reset();
  ending_ = true;
  if (send(control_->fd(), &order, sizeof order, MSG_NOSIGNAL) < 0) {
    shutdown(control_->fd(), SHUT_WR);  // it takes that for our death, and ends the tree without any steps
  }
  while (!tree_ended_ && !gone_) {
    co_await waiter.until(never);
  }
  ending_ = false;
  TreeEnd end{-1, {}};
  if (gone_) {
    std::erase_if(orphans_, [](pid_t pid) { return !is_alive(pid); });
    end.survivors = name_processes(orphans_);
  } else {
    end.reached = tree_ended_->reached;
    if (tree_ended_->left != 0) {
      end.survivors = name_processes(tree());
    }
  }
  changed_.notify();
  co_return end;
}

void Program::release() {
  EndTree order{};
  order.release = 1;
  [[maybe_unused]] const ssize_t n = send(control_->fd(), &order, sizeof order, MSG_NOSIGNAL);
}

}  // namespace rex::shell
