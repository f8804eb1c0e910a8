#include "shell/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
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
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "shell/process_tree.h"

namespace rex::shell {
namespace {

// Descriptor numbers inside a guardian; everything else is closed there.
constexpr int control_fd = 3;
constexpr int launch_fd = 4;
constexpr int program_fds = 5;  // 5, 6, 7: the program's 0, 1, 2
constexpr int signal_fd = 8;
constexpr int first_free_fd = 9;

std::int64_t now_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
}

void close_from(unsigned first) {
  if (close_range(first, ~0U, 0) != 0) {  // before Linux 5.9
    const long limit = sysconf(_SC_OPEN_MAX);
    for (long fd = first; fd < limit; ++fd) {
      close(static_cast<int>(fd));
    }
  }
}

void default_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    sigaction(number, &action, nullptr);  // fails for KILL, STOP and libc's own: nothing to reset there
  }
}

// ---- the launch, as it travels: argc, envc, tty as u32, then NUL-terminated cwd, argv, env

std::string encode(const Launch& launch) {
  const std::uint32_t head[3] = {static_cast<std::uint32_t>(launch.argv.size()),
                                 static_cast<std::uint32_t>(launch.env.size()), launch.controlling_tty ? 1U : 0U};
  std::string text(reinterpret_cast<const char*>(head), sizeof head);
  const auto add = [&text](const std::string& s) { text.append(s.c_str(), s.size() + 1); };
  add(launch.cwd);
  std::for_each(launch.argv.begin(), launch.argv.end(), add);
  std::for_each(launch.env.begin(), launch.env.end(), add);
  return text;
}

struct DecodedLaunch {
  char* cwd;
  char** argv;
  char** env;
  bool controlling_tty;
};

DecodedLaunch decode(char* text) {
  const auto* head = reinterpret_cast<const std::uint32_t*>(text);
  DecodedLaunch launch{};
  launch.controlling_tty = head[2] != 0;
  char* at = text + 3 * sizeof(std::uint32_t);
  const auto next = [&at] {
    char* s = at;
    at += std::strlen(at) + 1;
    return s;
  };
  const auto list = [&next](std::uint32_t count) {
    auto** items = static_cast<char**>(std::calloc(count + 1U, sizeof(char*)));
    for (std::uint32_t i = 0; i < count; ++i) {
      items[i] = next();
    }
    return items;
  };
  launch.cwd = next();
  launch.argv = list(head[0]);
  launch.env = list(head[1]);
  return launch;
}

// ---- the program itself

struct StartFailure {
  std::int32_t what;
  std::int32_t error;
};

/// execvpe with the PATH of the *new* environment, and its errno rules: EACCES outranks ENOENT.
int exec_program(const DecodedLaunch& launch) {
  char* file = launch.argv[0];
  if (std::strchr(file, '/') != nullptr) {
    execve(file, launch.argv, launch.env);
    return errno;
  }
  const char* path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
  for (char** variable = launch.env; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "PATH=", 5) == 0) {
      path = *variable + 5;
    }
  }
  int error = ENOENT;
  while (true) {
    const char* end = strchrnul(path, ':');
    char candidate[4096];
    const auto length = static_cast<std::size_t>(end - path);
    if (length + std::strlen(file) + 2 <= sizeof candidate) {
      std::memcpy(candidate, length != 0 ? path : ".", std::max<std::size_t>(length, 1));
      char* tail = candidate + std::max<std::size_t>(length, 1);
      *tail++ = '/';
      std::strcpy(tail, file);
      execve(candidate, launch.argv, launch.env);
      if (errno == EACCES) {
        error = EACCES;
      } else if (errno != ENOENT && errno != ENOTDIR) {
        return errno;
      }
    }
    if (*end == '\0') {
      return error;
    }
    path = end + 1;
  }
}

[[noreturn]] void run_program(const DecodedLaunch& launch, int failure_fd) {
  const auto fail = [failure_fd](char what, int error) {
    const StartFailure failure{what, error};
    [[maybe_unused]] const ssize_t n = write(failure_fd, &failure, sizeof failure);
    _exit(127);
  };
  setsid();
  if (launch.controlling_tty && ioctl(program_fds + 1, TIOCSCTTY, 0) != 0) {
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
    const StartFailure failure{'c', errno};
    [[maybe_unused]] const ssize_t n = write(3, &failure, sizeof failure);
    _exit(127);
  }
  default_signals();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const StartFailure failure{'x', exec_program(launch)};
  [[maybe_unused]] const ssize_t n = write(3, &failure, sizeof failure);
  _exit(127);
}

// ---- the guardian

class Guardian {
 public:
  [[noreturn]] void run() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "rex-guardian");
    if (!start_program()) {
      _exit(0);
    }
    while (true) {
      pollfd fds[2] = {{control_fd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
      poll(fds, 2, -1);
      if (fds[1].revents != 0) {
        reap();
      }
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
    const DecodedLaunch launch = decode(text);
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) {
      report_failure({'f', errno});
      return false;
    }
    program_ = fork();
    if (program_ < 0) {
      report_failure({'f', errno});
      return false;
    }
    if (program_ == 0) {
      run_program(launch, failure[1]);
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
    send(report);
    return true;
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

  void reap() {
    signalfd_siginfo ignored[8];
    while (read(signal_fd, ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    rusage usage{};
    pid_t pid = 0;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
      if (pid == program_) {
        program_ = -1;
        Report report{};
        report.kind = Report::exited;
        report.pid = pid;
        report.status = status;
        report.usage = usage;
        send(report);
      }
    }
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
      _exit(0);
    }
    if (order.release != 0) {
      _exit(0);
    }
    Report report{};
    report.kind = Report::tree_ended;
    report.reached = end_tree(order);
    report.left = static_cast<std::int32_t>(descendants(getpid()).size());
    send(report);
  }

  std::int32_t end_tree(const EndTree& order) {
    if (gone_within(0)) {
      return -1;
    }
    for (std::int32_t i = 0; i < std::min(order.count, std::int32_t{max_end_steps}); ++i) {
      for (const pid_t pid : descendants(getpid())) {
        signal_descendant(pid, order.steps[i].signal);
        signal_descendant(pid, SIGCONT);  // a stopped process would never see the signal
      }
      if (gone_within(order.steps[i].grace_ms)) {
        return i;
      }
    }
    const std::int64_t patience = now_ms() + kill_patience_ms;
    do {
      kill_frozen();
    } while (!gone_within(10) && now_ms() < patience);
    return order.count;
  }

  /// Stops all until a look finds nobody new, then kills all: a tree that forks while it is killed is outrun too.
  void kill_frozen() {
    std::size_t known = 0;
    for (int round = 0; round < 100; ++round) {
      const std::vector<pid_t> all = descendants(getpid());
      if (all.size() == known) {
        break;
      }
      known = all.size();
      for (const pid_t pid : all) {
        signal_descendant(pid, SIGSTOP);
      }
    }
    for (const pid_t pid : descendants(getpid())) {
      signal_descendant(pid, SIGKILL);
    }
  }

  /// Reaps until no descendant is left or the time is over.
  bool gone_within(std::int64_t milliseconds) {
    const std::int64_t deadline = now_ms() + milliseconds;
    while (true) {
      reap();
      if (descendants(getpid()).empty()) {
        return true;
      }
      const std::int64_t left = deadline - now_ms();
      if (left <= 0) {
        return false;
      }
      pollfd fd{signal_fd, POLLIN, 0};
      poll(&fd, 1, static_cast<int>(std::min<std::int64_t>(left, 50)));
    }
  }

  pid_t program_ = -1;
};

// ---- the nursery

/// Puts the received descriptors at the numbers a guardian knows them by and closes all others.
void arrange(int control, const int (&received)[5], int signals) {
  const int wanted[] = {control, received[1], received[2], received[3], received[4], signals};
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

[[noreturn]] void run_nursery(int socket) {
  prctl(PR_SET_NAME, "rex-nursery");
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  default_signals();
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, nullptr);  // guardians are never waited for
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, 0);
  dup2(null, 1);
  dup2(null, 2);  // whoever waits for the end of our standard error must not wait for a guardian
  dup2(socket, 3);
  close_from(4);
  while (true) {
    // The one thing asked of a nursery: [guardian's socket, launch, in, out, err].
    int fds[5];
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof fds)];
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    const ssize_t n = recvmsg(3, &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    const cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof fds)) {
      _exit(0);  // rex-rpc is gone
    }
    std::memcpy(fds, CMSG_DATA(header), sizeof fds);
    if (fork() == 0) {
      setsid();
      struct sigaction action{};
      action.sa_handler = SIG_DFL;
      sigaction(SIGCHLD, &action, nullptr);  // wait4 must find our children
      sigset_t child;
      sigemptyset(&child);
      sigaddset(&child, SIGCHLD);
      arrange(fds[0], fds, signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC));
      Guardian().run();
    }
    for (const int fd : fds) {
      close(fd);
    }
  }
}

void send_fds(int socket, const int (&fds)[5]) {
  char byte = 'g';
  iovec data{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof fds)] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds, sizeof fds);
  if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    throw os_error("cannot reach the process that starts programs", errno);
  }
}

}  // namespace

void Nursery::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw os_error("cannot make a socket pair", errno);
  }
  socket_.reset(ends[0]);
  const Fd theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) {
    throw os_error("cannot fork", errno);
  }
  if (pid == 0) {
    run_nursery(ends[1]);
  }
}

Fd Nursery::spawn(const Launch& launch, int in, int out, int err) {
  const Fd memory(memfd_create("launch", MFD_CLOEXEC));
  int ends[2];
  if (!memory || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw os_error("cannot start a program", errno);
  }
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  write_all(memory.get(), encode(launch), "cannot describe the program to start");
  const int fds[5] = {theirs.get(), memory.get(), in, out, err};
  try {
    send_fds(socket_.get(), fds);
  } catch (const Error&) {  // somebody killed the nursery; a new one serves as well
    start();
    send_fds(socket_.get(), fds);
  }
  return ours;
}

}  // namespace rex::shell
