#include "transports/ssh_network.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

namespace rex::transports {
namespace {

constexpr Milliseconds next_address{250};
constexpr std::size_t max_addresses = 16;
constexpr std::size_t max_printed = 1024 * 1024;

int milliseconds_until(TimePoint deadline) {
  const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

/// poll(2) with the hang-up among what is waited for. False at the deadline.
bool poll_all(std::vector<pollfd>& fds, const Hangup& hangup, TimePoint deadline) {
  fds.push_back({hangup.socket(), POLLIN | POLLRDHUP, 0});
  int ready = 0;
  do {
    ready = ::poll(fds.data(), fds.size(), milliseconds_until(deadline));
  } while ((ready < 0 && errno == EINTR) || (ready == 0 && Clock::now() < deadline));
  const bool hung_up = fds.back().revents != 0;
  fds.pop_back();
  if (hung_up) {
    throw Error(Fault::RequestCancelled, "the connection is no longer wanted");
  }
  return ready > 0;
}

struct Resolved {
  int error = 0;
  int os_error = 0;
  addrinfo* list = nullptr;

  ~Resolved() {
    if (list != nullptr) {
      ::freeaddrinfo(list);
    }
  }
};

void look_up(const Endpoint& endpoint, int flags, Resolved& resolved) {
  addrinfo hints{};
  hints.ai_family = endpoint.family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  const std::string port = std::to_string(endpoint.port);
  resolved.error = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &resolved.list);
  resolved.os_error = errno;
}

/// getaddrinfo cannot be interrupted, so it has a thread that may be left behind: it owns all it touches.
std::shared_ptr<Resolved> resolve(const Endpoint& endpoint, const Hangup& hangup, TimePoint deadline) {
  auto resolved = std::make_shared<Resolved>();
  look_up(endpoint, AI_NUMERICHOST, *resolved);
  if (resolved->error == 0) {
    return resolved;
  }
  resolved = std::make_shared<Resolved>();
  Pipe done = make_pipe();
  std::thread([endpoint, resolved, write = std::move(done.write)] {
    look_up(endpoint, 0, *resolved);
    (void)!::write(write.get(), "!", 1);  // nobody may be there any more
  }).detach();
  if (!hangup.wait(done.read.get(), POLLIN, deadline)) {
    throw unreachable("dns", "resolving " + endpoint.host + " took too long");
  }
  char told = 0;
  (void)!::read(done.read.get(), &told, 1);  // what the other thread wrote before is ours from here on
  if (resolved->error != 0) {
    const char* const why =
        resolved->error == EAI_SYSTEM ? std::strerror(resolved->os_error) : ::gai_strerror(resolved->error);
    throw unreachable("dns", "could not resolve " + endpoint.host + ": " + why);
  }
  return resolved;
}

std::string name_of(const addrinfo& address) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  ::getnameinfo(address.ai_addr, address.ai_addrlen, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + " port " + port;
}

void set(int socket, int level, int option, int value) { ::setsockopt(socket, level, option, &value, sizeof value); }

/// Two minutes, whether we have something to say or not.
void keep_alive(int socket) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 120'000);
}

/// Empty with errno set when there is no such address to bind, or the connection is refused at once.
Fd begin_connect(const Endpoint& endpoint, const addrinfo& address) {
  Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    return socket;
  }
  set(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (endpoint.keepalive) {
    keep_alive(socket.get());
  }
  bool failed = false;
  if (!endpoint.bind_address.empty()) {
    addrinfo hints{};
    hints.ai_family = address.ai_family;
    hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
    addrinfo* from = nullptr;
    const int error = ::getaddrinfo(endpoint.bind_address.c_str(), nullptr, &hints, &from);
    errno = EADDRNOTAVAIL;
    failed = error != 0 || ::bind(socket.get(), from->ai_addr, from->ai_addrlen) != 0;
    if (from != nullptr) {
      ::freeaddrinfo(from);
    }
  }
  if (failed || (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)) {
    socket.reset();
  }
  return socket;
}

struct Attempt {
  Fd socket;
  std::string name;
};

/// The first attempt that has come to a connection, if any; those that failed leave, and say why.
std::optional<Connected> settle(std::vector<Attempt>& attempts, const std::vector<pollfd>& fds, std::string& failures) {
  std::optional<Connected> connected;
  for (std::size_t i = attempts.size(); i-- > 0;) {
    if (fds[i].revents == 0) {
      continue;
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(attempts[i].socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) {
      connected = Connected{std::move(attempts[i].socket), attempts[i].name};
    } else {
      failures += (failures.empty() ? "" : "; ") + attempts[i].name + ": " + std::strerror(error);
    }
    attempts.erase(attempts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return connected;
}

}  // namespace

Error unreachable(std::string_view phase, std::string_view detail) {
  return host_unreachable(phase, printable(detail, 2048));
}

bool Hangup::wait(int fd, short events, TimePoint deadline) const {
  std::vector<pollfd> fds{{fd, events, 0}};
  return poll_all(fds, *this, deadline);
}

Connected connect_tcp(const Endpoint& endpoint, const Hangup& hangup,
                      const std::function<void(std::string_view phase, std::string_view detail)>& told) {
  told("dns", endpoint.host);
  const auto resolved = resolve(endpoint, hangup, Clock::now() + endpoint.patience);
  const TimePoint deadline = Clock::now() + endpoint.patience;
  std::vector<Attempt> attempts;
  std::string failures;
  const addrinfo* next = resolved->list;
  std::size_t tried = 0;
  for (;;) {
    if (next != nullptr && tried++ < max_addresses) {
      const std::string name = name_of(*next);
      told("tcp", name);
      if (Fd socket = begin_connect(endpoint, *next)) {
        attempts.push_back({std::move(socket), name});
      } else {
        failures += (failures.empty() ? "" : "; ") + name + ": " + std::strerror(errno);
      }
      next = next->ai_next;
    } else {
      next = nullptr;
    }
    if (attempts.empty()) {
      if (next != nullptr) {
        continue;
      }
      throw unreachable("tcp", failures);
    }
    std::vector<pollfd> fds;
    for (const Attempt& attempt : attempts) {
      fds.push_back({attempt.socket.get(), POLLOUT, 0});
    }
    const TimePoint until = next != nullptr ? std::min(deadline, Clock::now() + next_address) : deadline;
    if (poll_all(fds, hangup, until)) {
      if (auto connected = settle(attempts, fds, failures)) {
        return std::move(*connected);
      }
    } else if (Clock::now() >= deadline) {
      for (const Attempt& attempt : attempts) {
        failures += (failures.empty() ? "" : "; ") + attempt.name + ": no answer";
      }
      throw unreachable("tcp", failures);
    }
  }
}

namespace {

/// Takes what a program has printed; closes the pipe at its end.
void take(Fd& pipe, std::string& into) {
  const bool open = drain(pipe.get(), max_printed, [&](std::string_view bytes) {
    into += bytes.substr(0, max_printed - std::min(max_printed, into.size()));
  });
  if (!open) {
    pipe.reset();
  }
}

/// -1 when it cannot be started; `code` says why.
pid_t start(const std::vector<std::string>& argv, int out, int err, int& code) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, 1);
  posix_spawn_file_actions_adddup2(&files, err, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  pid_t pid = -1;
  code = ::posix_spawnp(&pid, words[0], &files, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return code == 0 ? pid : -1;
}

}  // namespace

Ran run_program(const std::vector<std::string>& argv, const Hangup& hangup, TimePoint deadline) {
  Ran ran;
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  for (const int fd : {out.read.get(), err.read.get()}) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  int code = 0;
  const pid_t pid = start(argv, out.write.get(), err.write.get(), code);
  if (pid < 0) {
    ran.err = std::strerror(code);
    return ran;
  }
  ran.started = true;
  out.write.reset();
  err.write.reset();
  const auto reap = [&](bool kill_it) {
    if (kill_it) {
      ::kill(pid, SIGKILL);
    }
    int status = 0;
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(pid, &status, 0);
    } while (reaped < 0 && errno == EINTR);
    ran.code = reaped == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  try {
    while (out.read) {  // its end is that of its output: what it left behind may hold its stderr
      std::vector<pollfd> fds{{out.read.get(), POLLIN, 0}, {err.read ? err.read.get() : -1, POLLIN, 0}};
      if (!poll_all(fds, hangup, deadline)) {
        reap(true);
        ran.err += " (stopped: it took too long)";
        return ran;
      }
      take(out.read, ran.out);
      if (err.read) {
        take(err.read, ran.err);
      }
    }
  } catch (...) {
    reap(true);
    throw;
  }
  reap(false);
  return ran;
}

}  // namespace rex::transports
