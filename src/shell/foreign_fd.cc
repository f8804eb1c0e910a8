#include "shell/foreign_fd.h"

#include <dirent.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "shell/proc_file.h"

namespace rex::shell {
namespace {

constexpr unsigned pts_major = 136;  // of every pseudo-terminal
constexpr unsigned console_major = 4;

std::string link_path(pid_t pid, const char* fd) { return "/proc/" + std::to_string(pid) + "/fd/" + fd; }

bool any_fd(pid_t pid, const std::function<bool(const std::string&)>& is_it) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  while (const dirent* entry = entries ? readdir(entries.get()) : nullptr) {
    if (entry->d_name[0] != '.' && is_it(link_path(pid, entry->d_name))) {
      return true;
    }
  }
  return false;
}

/// The mode of the link says which way a descriptor was opened.
bool has_both_ends(pid_t pid, ino_t pipe) {
  bool reads = false;
  bool writes = false;
  return any_fd(pid, [&](const std::string& path) {
    struct stat target{};
    struct stat link{};
    if (stat(path.c_str(), &target) == 0 && S_ISFIFO(target.st_mode) && target.st_ino == pipe &&
        lstat(path.c_str(), &link) == 0) {
      reads = reads || (link.st_mode & S_IRUSR) != 0;
      writes = writes || (link.st_mode & S_IWUSR) != 0;
    }
    return reads && writes;
  });
}

struct PeerQuestion {
  nlmsghdr header;
  unix_diag_req request;
};

/// The socket at the other end of a unix socket; 0 when there is none, or it is no unix socket.
ino_t peer_of_socket(ino_t socket_inode) {
  const Fd link(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  PeerQuestion question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = AF_UNIX;
  question.request.udiag_states = ~0u;
  question.request.udiag_ino = static_cast<unsigned>(socket_inode);
  question.request.udiag_show = UDIAG_SHOW_PEER;
  question.request.udiag_cookie[0] = question.request.udiag_cookie[1] = ~0u;
  alignas(nlmsghdr) char answer[4096];
  if (!link || send(link.get(), &question, sizeof question, 0) < 0) {
    return 0;
  }
  const ssize_t n = recv(link.get(), answer, sizeof answer, 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  if (n < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(unix_diag_msg))) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return 0;
  }
  const auto* message = static_cast<const unix_diag_msg*>(NLMSG_DATA(header));
  auto left = static_cast<int>(header->nlmsg_len - NLMSG_LENGTH(sizeof *message));
  for (const auto* each = reinterpret_cast<const rtattr*>(message + 1); RTA_OK(each, left);
       each = RTA_NEXT(each, left)) {
    if (each->rta_type == UNIX_DIAG_PEER) {
      return *static_cast<const unsigned*>(RTA_DATA(each));
    }
  }
  return 0;
}

bool has_both_sockets(pid_t pid, ino_t one) {
  const ino_t other = peer_of_socket(one);
  return other != 0 && any_fd(pid, [other](const std::string& path) {
           struct stat target{};
           return stat(path.c_str(), &target) == 0 && S_ISSOCK(target.st_mode) && target.st_ino == other;
         });
}

FdKind kind_of_device(const struct stat& node, int tty_nr, const TerminalId& terminal) {
  if (node.st_rdev == terminal.device && node.st_dev == terminal.file_system) {
    return FdKind::terminal;
  }
  if (node.st_rdev == makedev(5, 0)) {  // /dev/tty
    return tty_nr == terminal.tty_nr ? FdKind::terminal : FdKind::foreign;
  }
  const unsigned number = major(node.st_rdev);
  const bool other_terminal = node.st_rdev == makedev(5, 2) || number == pts_major || number == console_major;
  return other_terminal ? FdKind::foreign : FdKind::still;
}

FdKind kind_of_anonymous(const std::string& path) {
  char buffer[128];
  const ssize_t n = readlink(path.c_str(), buffer, sizeof buffer);
  const std::string_view name(buffer, n > 0 ? static_cast<std::size_t>(n) : 0);
  const auto is = [name](std::string_view word) { return name.find(word) != std::string_view::npos; };
  return name.empty()                                                         ? FdKind::gone
         : is("eventpoll")                                                    ? FdKind::set
         : is("timerfd")                                                      ? FdKind::timer
         : is("eventfd") || is("signalfd") || is("inotify") || is("io_uring") ? FdKind::own
                                                                              : FdKind::foreign;
}

}  // namespace

int pts_number(int tty_nr) {
  const auto packed = static_cast<unsigned>(tty_nr);
  return (packed >> 8 & 0xfff) == pts_major ? static_cast<int>((packed & 0xff) | (packed >> 12 & 0xfff00)) : -1;
}

TerminalId terminal_id(int slave) {
  struct stat node{};
  if (fstat(slave, &node) != 0) {
    return {};
  }
  const unsigned minor_number = minor(node.st_rdev);
  const unsigned packed = (minor_number & 0xff) | (major(node.st_rdev) << 8) | ((minor_number & ~0xffu) << 12);
  return {node.st_rdev, node.st_dev, static_cast<int>(packed)};
}

FdKind kind_of_fd(pid_t pid, int tty_nr, int fd, const TerminalId& terminal) {
  const std::string path = link_path(pid, std::to_string(fd).c_str());
  struct stat node{};
  if (stat(path.c_str(), &node) != 0) {
    return FdKind::gone;
  }
  switch (node.st_mode & S_IFMT) {
    case S_IFCHR: return kind_of_device(node, tty_nr, terminal);
    case S_IFIFO: return has_both_ends(pid, node.st_ino) ? FdKind::own : FdKind::foreign;
    case S_IFSOCK: return has_both_sockets(pid, node.st_ino) ? FdKind::own : FdKind::foreign;
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK: return FdKind::still;
    default: return kind_of_anonymous(path);
  }
}

std::vector<int> read_set_of_epoll(pid_t pid, int fd) {
  std::vector<int> set;
  ProcFile file;
  const std::string name = "fdinfo/" + std::to_string(fd);
  std::string_view text = file.read(pid, name.c_str());
  for (std::size_t at = text.find("tfd:"); at != std::string_view::npos; at = text.find("tfd:", at + 1)) {
    int member = -1;
    unsigned events = 0;
    if (std::sscanf(text.data() + at, "tfd: %d events: %x", &member, &events) == 2 &&
        (events & (EPOLLIN | EPOLLPRI | EPOLLRDNORM)) != 0) {
      set.push_back(member);
    }
  }
  if (file.is_cut()) {
    set.push_back(-1);
  }
  return set;
}

bool reads_a_pipe(pid_t pid) {
  struct stat node{};
  return stat(link_path(pid, "0").c_str(), &node) == 0 && S_ISFIFO(node.st_mode);
}

}  // namespace rex::shell
