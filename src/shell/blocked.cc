#include "shell/blocked.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "shell/proc_file.h"

namespace rex::shell {
namespace {

// What is beyond is not looked at, and the claim is none.
constexpr std::size_t max_polled = 4096;
constexpr int max_nested_sets = 3;

struct Call {
  long number = -1;
  std::array<unsigned long, 6> arguments{};
};

enum class Wait { none, child, read, poll, select, epoll, uring };

struct Waiting {
  Wait wait = Wait::none;
  int timeout_argument = -1;  // -1: it cannot have one
  bool timeout_is_pointer = true;
};

/// The numbers differ between architectures: an older one has calls that a newer one was not given.
Waiting wait_of(long number) {
  switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2: return {Wait::read};
#ifdef SYS_poll
    case SYS_poll: return {Wait::poll, 2, false};
#endif
    case SYS_ppoll: return {Wait::poll, 2};
#ifdef SYS_select
    case SYS_select: return {Wait::select, 4};
#endif
    case SYS_pselect6: return {Wait::select, 4};
#ifdef SYS_epoll_wait
    case SYS_epoll_wait: return {Wait::epoll, 3, false};
#endif
    case SYS_epoll_pwait: return {Wait::epoll, 3, false};
    case SYS_epoll_pwait2: return {Wait::epoll, 3};
    case SYS_io_uring_enter: return {Wait::uring};
    case SYS_wait4:
    case SYS_waitid: return {Wait::child};
    default: return {};
  }
}

bool read_memory(pid_t pid, unsigned long address, void* to, std::size_t size) {
  const iovec local{to, size};
  const iovec remote{reinterpret_cast<void*>(address), size};  // NOLINT: an address over there
  if (process_vm_readv(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size)) {
    return true;
  }
  // A seccomp filter may forbid that call and not this file.
  const std::string path = "/proc/" + std::to_string(pid) + "/mem";
  const Fd memory(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return memory && pread(memory.get(), to, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
}

/// What a thread polls, sorted.
class Polled {
 public:
  Polled(pid_t pid, int tty_nr, const TerminalId& terminal) : pid_(pid), tty_nr_(tty_nr), terminal_(terminal) {}

  void add(int fd, int depth = 0) {
    if (fd < 0) {
      foreign_ = true;
      return;
    }
    switch (kind_of_fd(pid_, tty_nr_, fd, terminal_)) {
      case FdKind::terminal: has_terminal_ = true; break;
      case FdKind::timer: timer_ = true; break;
      case FdKind::foreign: foreign_ = true; break;
      case FdKind::set: add_set(fd, depth); break;
      case FdKind::gone:
      case FdKind::own:
      case FdKind::still: break;
    }
  }

  void add_set(int fd, int depth) {
    if (depth >= max_nested_sets) {
      foreign_ = true;
      return;
    }
    for (const int member : read_set_of_epoll(pid_, fd)) {
      add(member, depth + 1);
    }
  }

  [[nodiscard]] bool has_foreign() const { return foreign_; }

  [[nodiscard]] Block block(bool has_timeout) const {
    return !has_terminal_          ? Block::elsewhere
           : foreign_              ? Block::several
           : has_timeout || timer_ ? Block::timed
                                   : Block::poll;
  }

 private:
  pid_t pid_;
  int tty_nr_;
  const TerminalId& terminal_;
  bool has_terminal_ = false;
  bool foreign_ = false;
  bool timer_ = false;
};

bool add_pollfds(pid_t pid, const Call& call, Polled& polled) {
  std::vector<pollfd> fds(call.arguments[1]);
  if (!fds.empty() && !read_memory(pid, call.arguments[0], fds.data(), fds.size() * sizeof(pollfd))) {
    return false;
  }
  for (const pollfd& each : fds) {
    if (each.fd >= 0 && (each.events & (POLLIN | POLLRDNORM | POLLPRI)) != 0) {
      polled.add(each.fd);
    }
  }
  return true;
}

bool add_fd_set(pid_t pid, const Call& call, Polled& polled) {
  constexpr std::size_t bits = sizeof(unsigned long) * 8;
  std::vector<unsigned long> words((call.arguments[0] + bits - 1) / bits);
  if (call.arguments[1] == 0 || words.empty()) {
    return true;
  }
  if (!read_memory(pid, call.arguments[1], words.data(), words.size() * sizeof(unsigned long))) {
    return false;
  }
  for (std::size_t fd = 0; fd < call.arguments[0]; ++fd) {
    if ((words[fd / bits] >> (fd % bits) & 1) != 0) {
      polled.add(static_cast<int>(fd));
    }
  }
  return true;
}

bool has_timeout(const Call& call, const Waiting& waiting) {
  if (waiting.timeout_argument < 0) {
    return false;
  }
  const unsigned long value = call.arguments[static_cast<std::size_t>(waiting.timeout_argument)];
  return waiting.timeout_is_pointer ? value != 0 : static_cast<int>(value) >= 0;
}

/// Whether the program's system calls have the numbers that we know; a 32-bit one's have not.
bool is_of_our_architecture(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/exe";
  const Fd program(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const Fd ours(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  std::array<unsigned char, 20> theirs_header{};
  std::array<unsigned char, 20> our_header{};
  if (!program || !ours || pread(program.get(), theirs_header.data(), theirs_header.size(), 0) != 20 ||
      pread(ours.get(), our_header.data(), our_header.size(), 0) != 20) {
    return true;  // a program that was deleted and whose file is gone: as likely ours as any
  }
  constexpr std::size_t machine = 18;  // e_machine
  return theirs_header[EI_CLASS] == our_header[EI_CLASS] && theirs_header[machine] == our_header[machine] &&
         theirs_header[machine + 1] == our_header[machine + 1];
}

std::optional<Call> parse_call(const char* line) {
  Call call;
  std::array<unsigned long, 6>& a = call.arguments;
  if (std::sscanf(line, "%ld %lx %lx %lx %lx %lx %lx", &call.number, a.data(), &a[1], &a[2], &a[3], &a[4], &a[5]) < 7) {
    return std::nullopt;
  }
  return call;
}

Block block_of(const Call& call, pid_t pid, int tty_nr, const TerminalId& terminal, bool& foreign) {
  const Waiting waiting = wait_of(call.number);
  Polled polled(pid, tty_nr, terminal);
  switch (waiting.wait) {
    case Wait::none: return Block::elsewhere;
    case Wait::child: return Block::child;
    case Wait::read:
      return kind_of_fd(pid, tty_nr, static_cast<int>(call.arguments[0]), terminal) == FdKind::terminal
                 ? Block::read
                 : Block::elsewhere;
    case Wait::poll:
      if (call.arguments[1] > max_polled || !add_pollfds(pid, call, polled)) {
        return Block::unclear;
      }
      break;
    case Wait::select:
      if (call.arguments[0] > max_polled || !add_fd_set(pid, call, polled)) {
        return Block::unclear;
      }
      break;
    case Wait::epoll: polled.add_set(static_cast<int>(call.arguments[0]), 0); break;
    case Wait::uring:
      return kind_of_fd(pid, tty_nr, 0, terminal) == FdKind::terminal ? Block::unclear : Block::elsewhere;
  }
  foreign = polled.has_foreign();
  return polled.block(has_timeout(call, waiting));
}

}  // namespace

ThreadState count_thread(pid_t pid, pid_t thread) {
  ThreadState state;
  state.pid = pid;
  state.thread = thread;
  ProcFile file;
  unsigned long long run = 0;
  unsigned long long turns = 0;
  if (std::sscanf(file.read(pid, thread, "schedstat").data(), "%llu %*u %llu", &run, &turns) == 2) {
    state.run_ns = run;
    state.turns = turns;
    state.counted = true;
  }
  return state;
}

ThreadState look_at_thread(pid_t pid, pid_t thread, int tty_nr, char state, const TerminalId& terminal) {
  // The counters first: what the thread does between the two reads shows when they are compared with the next look's.
  ThreadState seen = count_thread(pid, thread);
  ProcFile file;
  const std::string_view line = file.read(pid, thread, "syscall");
  if (file.error() == EPERM || file.error() == EACCES) {
    seen.block = state == 'R' || state == 'D' ? Block::running : Block::refused;
    return seen;
  }
  if (line.starts_with("running")) {
    seen.block = Block::running;
    return seen;
  }
  std::optional<Call> call = parse_call(line.data());
  if (!call) {  // it is gone, or in no system call
    return seen;
  }
#ifdef SYS_poll
  // What was stopped and continued goes on as restart_syscall, its arguments in place: a poll, or a sleep.
  if (call->number == SYS_restart_syscall && file.read(pid, thread, "wchan").find("poll") != std::string_view::npos) {
    call->number = SYS_poll;
  }
#endif
  seen.block = block_of(*call, pid, tty_nr, terminal, seen.foreign);
  if (seen.block > Block::unclear && !is_of_our_architecture(pid)) {
    seen.block = Block::unclear;
  }
  return seen;
}

}  // namespace rex::shell
