#include "shell/nursery.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "shell/guardian.h"

namespace rex::shell {
namespace {

/// The one thing asked of a nursery: [guardian's socket, launch, in, out, err]. False when rex-rpc is gone.
bool receive(int socket, int (&fds)[5]) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof fds)];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  ssize_t n = 0;
  do {
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  const cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof fds)) {
    return false;
  }
  std::memcpy(fds, CMSG_DATA(header), sizeof fds);
  return true;
}

/// A guardian is forked before it is asked for, and waits for the request itself: nobody waits for a fork.
[[noreturn]] void run_spare(int socket, int taken) {
  int fds[5];
  if (!receive(socket, fds)) {
    _exit(0);
  }
  const char byte = 't';
  [[maybe_unused]] const ssize_t n = write(taken, &byte, 1);
  run_guardian(fds);
}

/// Also what was asked just before is done first.
bool is_hung_up(int socket) {
  pollfd fd{socket, 0, 0};
  char byte = 0;
  return poll(&fd, 1, 0) == 1 && (fd.revents & POLLHUP) != 0 && recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

[[noreturn]] void run_nursery(int socket, const rlimit& open_files, const std::string& core_filter) {
  setrlimit(RLIMIT_NOFILE, &open_files);
  set_core_filter(core_filter);
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
  while (!is_hung_up(3)) {
    int taken[2];
    if (pipe2(taken, O_CLOEXEC) != 0) {
      break;
    }
    const pid_t spare = fork();
    if (spare == 0) {
      close(taken[0]);
      run_spare(3, taken[1]);
    }
    close(taken[1]);
    int refused[5];
    if (spare < 0 && receive(3, refused)) {  // no process left: letting go of its socket is the answer
      for (const int fd : refused) {
        close(fd);
      }
    }
    char byte = 0;
    while (read(taken[0], &byte, 1) < 0 && errno == EINTR) {
    }
    close(taken[0]);
  }
  _exit(0);
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

Nursery::Nursery() {
  getrlimit(RLIMIT_NOFILE, &open_files_);
  start();
  const rlimit most{open_files_.rlim_max, open_files_.rlim_max};
  setrlimit(RLIMIT_NOFILE, &most);
}

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
    run_nursery(ends[1], open_files_, core_filter_);
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
  write_all(memory.get(), encode_launch(launch), "cannot describe the program to start");
  const int fds[5] = {theirs.get(), memory.get(), in, out, err};
  try {
    send_fds(socket_.get(), fds);
  } catch (const Error&) {  // it rests, or somebody killed it; a new one serves as well
    start();
    send_fds(socket_.get(), fds);
  }
  return ours;
}

}  // namespace rex::shell
