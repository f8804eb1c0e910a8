// Programs for the tests of hosts/: started by a plain fork, ended by a plain kill.
#pragma once

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transports/exec.h"

namespace rex::test {

struct Forked {
  pid_t pid = -1;
  int status = -1;
  bool ended = false;
  Event exited;

  void reap(int flags) { ended = ended || ::waitpid(pid, &status, flags) == pid; }
  ~Forked() {
    if (!ended) {
      ::kill(pid, SIGKILL);
      reap(0);
    }
  }
};

inline Task<> watch(std::weak_ptr<Forked> child, std::shared_ptr<AsyncFd> pidfd) {
  co_await pidfd->readable();
  if (const auto forked = child.lock()) {
    forked->reap(WNOHANG);
    forked->exited.notify();
  }
}

inline Task<transports::Child> fork_and_exec(Executor executor, std::vector<std::string> argv, int in, int out,
                                             int err) {
  const auto forked = std::make_shared<Forked>();
  forked->pid = ::fork();
  if (forked->pid == 0) {
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(err, 2);
    std::vector<char*> words;
    for (std::string& word : argv) {
      words.push_back(word.data());
    }
    words.push_back(nullptr);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  const auto pidfd =
      std::make_shared<AsyncFd>(executor, Fd(static_cast<int>(::syscall(SYS_pidfd_open, forked->pid, 0))));
  spawn(executor, watch(forked, pidfd));
  transports::Child child;
  child.exited = std::shared_ptr<Event>(forked, &forked->exited);
  child.ending = [forked]() -> std::optional<transports::Ending> {
    if (!forked->ended) {
      return std::nullopt;
    }
    return transports::Ending{forked->status == 0, "exited with " + std::to_string(WEXITSTATUS(forked->status))};
  };
  child.is_gone = [forked] { return forked->ended; };
  co_return child;
}

inline transports::Spawner spawner(Executor executor) {
  return [executor](std::vector<std::string> argv, int in, int out, int err) {
    return fork_and_exec(executor, std::move(argv), in, out, err);
  };
}

/// Runs a coroutine to its end; what escapes from it is thrown here.
inline void run(Loop& loop, Task<> task) {
  std::exception_ptr escaped;
  spawn(loop.get_executor(), std::move(task), [&](std::exception_ptr failure) {
    escaped = failure;
    loop.stop();
  });
  loop.run();
  loop.restart();
  if (escaped) {
    std::rethrow_exception(escaped);
  }
}

inline Task<std::string> read_all(Transport& transport) {
  std::string all;
  char buffer[4096];
  while (const std::size_t n = co_await transport.read_some(buffer)) {
    all.append(buffer, n);
  }
  co_return all;
}

}  // namespace rex::test
