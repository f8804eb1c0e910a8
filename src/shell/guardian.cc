#include "shell/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <set>
#include <vector>

#include "shell/cgroup.h"
#include "shell/launch.h"
#include "shell/process_tree.h"

namespace rex::shell {
namespace {

// Descriptor numbers inside a guardian; everything else is closed there.
constexpr int control_fd = 3;
constexpr int launch_fd = 4;
constexpr int program_fds = 5;  // 5, 6, 7: the program's 0, 1, 2
constexpr int signal_fd = 8;
constexpr int first_free_fd = 9;

// How many ended processes are taken in one go.
constexpr int max_reaped = 1000;

// While a tree is killed: how many looks may find somebody new before the known are killed, and when to look again.
constexpr int max_freeze_rounds = 100;
constexpr std::int64_t kill_pause_ms = 10;

// How often a cgroup is tried to be removed whose last process has ended: with Linux 6.19 it may be found in it still.
constexpr int max_removals = 20;

std::int64_t now_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

/// A process that keeps daemon sessions, started somewhere below us: it belongs to its user, not to what we end. It has
/// left its session and its parents on purpose, which nothing does by accident under that name.
bool is_spared(pid_t pid) { return command_of(pid) == keeper_name && getsid(pid) == pid; }

struct StartFailure {
  std::int32_t what;
  std::int32_t error;
};

/// `entrance` is that of the program's cgroup, or -1.
[[noreturn]] void run_program(const DecodedLaunch& launch, int failure_fd, int entrance) {
  const auto fail = [&failure_fd](char what, int error) {
    const StartFailure failure{what, error};
    [[maybe_unused]] const ssize_t n = write(failure_fd, &failure, sizeof failure);
    _exit(127);
  };
  setsid();
  if (entrance >= 0 && write(entrance, "0", 1) != 1) {
    fail('g', errno);
  }
  if (launch.controlling_tty && ioctl(program_fds + 2, TIOCSCTTY, 0) != 0) {
    fail('t', errno);
  }
  for (int fd = 0; fd < 3; ++fd) {
    dup2(program_fds + fd, fd);
  }
  dup2(failure_fd, 3);
  fcntl(3, F_SETFD, FD_CLOEXEC);
  failure_fd = 3;
  close_from(4);
  if (*launch.cwd != '\0' && chdir(launch.cwd) != 0) {
    fail('c', errno);
  }
  default_signals();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!apply_limits(launch)) {
    fail('l', errno);
  }
  fail('x', exec_program(launch));
  _exit(127);
}

class Guardian {
 public:
  [[noreturn]] void run() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "rex-guardian");
    if (!start_program()) {
      if (gone_within(kill_patience_ms)) {
        drop_cgroup();
      }
      _exit(0);
    }
    while (true) {
      pollfd fds[2] = {{control_fd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
      poll(fds, 2, more_ended_ ? 0 : -1);
      reap();
      if (fds[0].revents != 0) {
        obey();
      }
    }
  }

 private:
  bool start_program() {
    struct stat info{};
    fstat(launch_fd, &info);
    auto* text = static_cast<char*>(
        mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_PRIVATE, launch_fd, 0));
    DecodedLaunch launch = decode_launch(text);
    const TreeLimits counted = make_cgroup(launch);
    if (tree_limits_in(launch.limits).processes && !processes_are_counted()) {
      report_failure({'p', 0});
      return false;
    }
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) {
      report_failure({'f', errno});
      return false;
    }
    // vfork copies nothing, and runs on here only once the program runs or could not. In a cgroup that has no memory
    // left the kernel kills whoever shares it, and that would be us.
    program_ = cgroup_ ? fork() : vfork();  // NOLINT: posix_spawn cannot do what is done below
    if (program_ < 0) {
      report_failure({'f', errno});
      return false;
    }
    if (program_ == 0) {
      run_program(launch, failure[1], cgroup_ ? cgroup_->entrance() : -1);
    }
    if (cgroup_) {
      cgroup_->close_entrance();
    }
    munmap(text, static_cast<std::size_t>(info.st_size));
    std::free(launch.argv);
    std::free(launch.env);
    close(failure[1]);
    for (int fd = launch_fd; fd < program_fds + 3; ++fd) {
      close(fd);
    }
    StartFailure failed{};
    const ssize_t n = read(failure[0], &failed, sizeof failed);
    close(failure[0]);
    if (n == sizeof failed) {
      report_failure(failed);
      return false;
    }
    Report report{};
    report.kind = Report::started;
    report.pid = program_;
    report.guardian = getpid();
    report.processes = counted.processes.value_or(0);
    report.memory_bytes = counted.memory_bytes.value_or(0);
    send(report);
    return true;
  }

  /// Where a cgroup counts something of the launch's limits, that is no rlimit any more. Returns what it holds to.
  TreeLimits make_cgroup(DecodedLaunch& launch) {
    const TreeLimits wanted = tree_limits_in(launch.limits);
    cgroup_ = wanted.count() != 0 ? Cgroup::make(wanted) : std::nullopt;
    if (!cgroup_) {
      return {};
    }
    remove_counted(launch.limits, cgroup_->limits());
    return cgroup_->limits();
  }

  /// Only where the tree is proven gone.
  void drop_cgroup() {
    for (int i = 0; cgroup_ && i < max_removals && !cgroup_->remove(); ++i) {
      poll(nullptr, 0, static_cast<int>(kill_pause_ms));
    }
    cgroup_.reset();
  }

  void report_failure(StartFailure failure) {
    Report report{};
    report.kind = Report::failed;
    report.what = failure.what;
    report.error = failure.error;
    send(report);
  }

  static void send(const Report& report) {
    [[maybe_unused]] const ssize_t n = ::send(control_fd, &report, sizeof report, MSG_NOSIGNAL);
  }

  /// Takes what has ended, some at a time: a swarm that forks and exits for ever ends as fast as we look, and would
  /// have us look at nothing else. True when nothing is left. No child at all, not even a dead one, is the proof:
  /// whatever is still alive below us has a living ancestor among our children. A walk through /proc is none, since a
  /// process that forks and exits for ever can be missed by every look (test_faults_processes.py, P02).
  bool reap() {
    signalfd_siginfo ignored[8];
    while (read(signal_fd, ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    rusage usage{};
    pid_t pid = 1;
    for (int ended = 0; ended < max_reaped && pid > 0; ++ended) {
      pid = wait4(-1, &status, WNOHANG | __WALL, &usage);
      if (pid > 0 && pid == program_) {
        program_ = -1;
        Report report{};
        report.kind = Report::exited;
        report.pid = pid;
        report.status = status;
        report.usage = usage;
        send(report);
      }
    }
    more_ended_ = pid > 0;
    return pid < 0 && errno == ECHILD;
  }

  /// Whether all are gone but those we spare.
  bool is_alone() {
    if (reap()) {
      return true;
    }
    const std::vector<pid_t> left = children(getpid());
    return !more_ended_ && !left.empty() && std::all_of(left.begin(), left.end(), is_spared);
  }

  void obey() {
    EndTree order{};
    const ssize_t n = recv(control_fd, &order, sizeof order, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    if (n != sizeof order) {  // our owner let go of us, or died: the tree dies with it
      order = EndTree{};
      end_tree(order);
      leave();
    }
    if (order.release != 0) {
      leave();
    }
    Report report{};
    report.kind = Report::tree_ended;
    report.reached = end_tree(order);
    report.left = is_alone() ? 0 : 1;
    if (report.left == 0) {
      drop_cgroup();
    }
    send(report);
  }

  /// A cgroup that somebody lives on in stays, and so do its limits.
  [[noreturn]] void leave() {
    if (reap()) {
      drop_cgroup();
    }
    _exit(0);
  }

  std::int32_t end_tree(const EndTree& order) {
    if (gone_within(0)) {
      return -1;
    }
    for (std::int32_t i = 0; i < std::min(order.count, std::int32_t{max_end_steps}); ++i) {
      for (const pid_t pid : descendants(getpid(), is_spared)) {
        signal_descendant(pid, order.steps[i].signal);
        signal_descendant(pid, SIGCONT);  // a stopped process would never see the signal
      }
      if (gone_within(order.steps[i].grace_ms)) {
        return i;
      }
    }
    if (cgroup_) {
      cgroup_->kill();  // whoever moved out of it is left to the following
    }
    std::size_t fewest = SIZE_MAX;
    std::int64_t patience = 0;
    do {
      if (const std::size_t left = kill_frozen(); left < fewest) {  // a large tree takes its time
        fewest = left;
        patience = now_ms() + kill_patience_ms;
      }
    } while (!gone_within(kill_pause_ms) && now_ms() < patience);
    return order.count;
  }

  /// Stops all until a look finds nobody new, then kills all: a tree that forks while it is killed is outrun too.
  /// Returns how many there were.
  std::size_t kill_frozen() {
    std::set<pid_t> frozen;
    bool grown = true;
    for (int round = 0; grown && round < max_freeze_rounds; ++round) {
      grown = stop_children(frozen);
      if (grown) {
        continue;
      }
      for (const pid_t pid : descendants(getpid(), is_spared)) {
        if (frozen.insert(pid).second) {
          grown = true;
          signal_descendant(pid, SIGSTOP);
        }
      }
    }
    const std::vector<pid_t> all = descendants(getpid(), is_spared);
    for (const pid_t pid : all) {
      signal_descendant(pid, SIGKILL);
    }
    return all.size();
  }

  /// Whoever forks and ends for ever is faster than any walk through the tree, but not than the kernel: a signal to a
  /// process group reaches all its members in one step, and a child that is being forked just then. So every child's
  /// group is stopped, also that of a dead one, whose successor may not be ours yet. A child's number and its group's
  /// are nobody else's until we reap it. True when there was a child that is not in `frozen` yet.
  bool stop_children(std::set<pid_t>& frozen) {
    std::set<pid_t> groups;
    bool grown = false;
    for (const pid_t pid : children(getpid())) {
      if (is_spared(pid)) {
        continue;
      }
      groups.insert(getpgid(pid));
      if (frozen.insert(pid).second) {
        grown = true;
        kill(pid, SIGSTOP);
      }
    }
    for (const pid_t group : groups) {
      if (group > 1 && group != getpgrp()) {
        kill(-group, SIGSTOP);
      }
    }
    reap();
    return grown;
  }

  /// Reaps until no descendant is left or the time is over.
  bool gone_within(std::int64_t milliseconds) {
    const std::int64_t deadline = now_ms() + milliseconds;
    while (true) {
      if (is_alone()) {
        return true;
      }
      const std::int64_t left = deadline - now_ms();
      if (left <= 0) {
        return false;
      }
      pollfd fd{signal_fd, POLLIN, 0};
      poll(&fd, 1, more_ended_ ? 0 : static_cast<int>(std::min<std::int64_t>(left, 50)));
    }
  }

  std::optional<Cgroup> cgroup_;  // until the tree is gone; none where nothing is to be counted
  pid_t program_ = -1;
  bool more_ended_ = false;  // and may be waited for, though no signal tells of it again
};

/// Puts the received descriptors at the numbers a guardian knows them by and closes all others.
void arrange(const int (&received)[5], int signals) {
  const int wanted[] = {received[0], received[1], received[2], received[3], received[4], signals};
  int high[6];
  for (int i = 0; i < 6; ++i) {
    high[i] = fcntl(wanted[i], F_DUPFD, 64);
  }
  for (int i = 0; i < 6; ++i) {
    dup2(high[i], control_fd + i);
  }
  close_from(first_free_fd);
  fcntl(control_fd, F_SETFD, FD_CLOEXEC);
  fcntl(signal_fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace

void run_guardian(const int (&received)[5]) {
  setsid();
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, nullptr);  // wait4 must find our children
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  arrange(received, signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC));
  Guardian().run();
}

}  // namespace rex::shell
