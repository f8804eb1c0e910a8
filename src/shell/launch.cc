#include "shell/launch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace rex::shell {

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

// As it travels: argc, envc, limits, tty as u32, the limits, then NUL-terminated cwd, argv, env.
std::string encode_launch(const Launch& launch) {
  const std::uint32_t head[4] = {static_cast<std::uint32_t>(launch.argv.size()),
                                 static_cast<std::uint32_t>(launch.env.size()),
                                 static_cast<std::uint32_t>(launch.limits.size()), launch.controlling_tty ? 1U : 0U};
  std::string text(reinterpret_cast<const char*>(head), sizeof head);
  text.append(reinterpret_cast<const char*>(launch.limits.data()), launch.limits.size() * sizeof(Rlimit));
  const auto add = [&text](const std::string& s) { text.append(s.c_str(), s.size() + 1); };
  add(launch.cwd);
  std::for_each(launch.argv.begin(), launch.argv.end(), add);
  std::for_each(launch.env.begin(), launch.env.end(), add);
  return text;
}

DecodedLaunch decode_launch(char* text) {
  const auto* head = reinterpret_cast<const std::uint32_t*>(text);
  DecodedLaunch launch{};
  launch.controlling_tty = head[3] != 0;
  char* at = text + 4 * sizeof(std::uint32_t);
  launch.limits.resize(head[2]);
  if (head[2] != 0) {  // an empty vector has no place to copy to
    std::memcpy(launch.limits.data(), at, head[2] * sizeof(Rlimit));
  }
  at += head[2] * sizeof(Rlimit);
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

bool apply_limits(const DecodedLaunch& launch) {
  return std::all_of(launch.limits.begin(), launch.limits.end(), [](const Rlimit& limit) {
    return setrlimit(static_cast<__rlimit_resource>(limit.resource), &limit.value) == 0;
  });
}

// With execvp's errno rules: EACCES outranks ENOENT.
int exec_program(const DecodedLaunch& launch) {
  char* file = launch.argv[0];
  if (*file == '\0') {
    return ENOENT;
  }
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

}  // namespace rex::shell
