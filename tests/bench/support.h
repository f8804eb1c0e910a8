// What the benchmarks share: samples, CPU clocks, a child on a raw pty, a rex-rpc on two pipes.
// Must not know what is measured. Plain blocking calls throughout, so that the client adds as little as it can.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rex::bench {

/// A benchmark that is broken must not look like a slow one.
[[noreturn]] inline void fail(std::string_view what) {
  std::fprintf(stderr, "bench: %.*s (%s)\n", static_cast<int>(what.size()), what.data(), std::strerror(errno));
  std::exit(1);
}

using Clock = std::chrono::steady_clock;

inline double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Durations in microseconds.
class Samples {
 public:
  void add(double microseconds) { all_.push_back(microseconds); }
  [[nodiscard]] std::size_t count() const { return all_.size(); }
  /// The smallest sample that at least `share` (0 to 1) of all do not exceed.
  [[nodiscard]] double quantile(double share) const {
    std::vector<double> sorted = all_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
  }

 private:
  std::vector<double> all_;
};

/// CPU time of this process so far, user and system, in microseconds.
inline double own_cpu() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

/// CPU time of a process so far, in microseconds. Nanoseconds in the kernel, unlike the ticks of /proc/PID/stat.
inline double cpu_of(pid_t pid) {
  double sum = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    std::ifstream file(task.path() / "schedstat");
    double nanoseconds = 0;
    file >> nanoseconds;
    sum += nanoseconds / 1e3;
  }
  return sum;
}

/// `root` and all processes below it.
inline std::vector<pid_t> family(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (std::isdigit(entry.path().filename().c_str()[0]) != 0 && std::getline(file, text)) {
      pid_t parent = 0;
      std::sscanf(text.c_str() + text.rfind(')') + 1, " %*c %d", &parent);
      children.emplace(parent, std::atoi(entry.path().filename().c_str()));
    }
  }
  std::vector<pid_t> all{root};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [begin, end] = children.equal_range(all[i]);
    std::for_each(begin, end, [&all](const auto& child) { all.push_back(child.second); });
  }
  return all;
}

inline std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& each : strings) {
    pointers.push_back(const_cast<char*>(each.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

inline void write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0) {
      fail("write");
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// A program whose standard input, output and error are a pty without echo, lines, signals or output processing: what
/// is left of a terminal when nothing is asked of it.
class RawPty {
 public:
  explicit RawPty(const std::vector<std::string>& argv) : buffer_(64 * 1024) {
    termios modes{};
    cfmakeraw(&modes);
    modes.c_cflag |= CREAD | CS8;
    modes.c_cc[VMIN] = 1;
    pid_ = forkpty(&master_, nullptr, &modes, nullptr);
    if (pid_ < 0) {
      fail("forkpty");
    }
    if (pid_ == 0) {
      setenv("PS1", "", 1);  // a shell's prompt would come behind the byte that is waited for
      execvp(argv[0].c_str(), c_strings(argv).data());
      _exit(127);
    }
  }
  ~RawPty() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(master_);
  }
  RawPty(const RawPty&) = delete;
  RawPty& operator=(const RawPty&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void type(std::string_view text) const { write_whole(master_, text); }
  /// Reads and drops until a read ends in `mark`; returns how many bytes came.
  std::size_t read_to(char mark) {
    std::size_t total = 0;
    while (true) {
      const ssize_t n = read(master_, buffer_.data(), buffer_.size());
      if (n <= 0) {
        fail("the program on the pty has gone");
      }
      total += static_cast<std::size_t>(n);
      if (buffer_[static_cast<std::size_t>(n) - 1] == mark) {
        return total;
      }
    }
  }

 private:
  int master_ = -1;
  pid_t pid_ = -1;
  std::vector<char> buffer_;
};

/// Spawns with descriptors 0 and 1 as given, where they are not -1.
inline pid_t spawn(const std::vector<std::string>& argv, int in = -1, int out = -1) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (in >= 0) {
    posix_spawn_file_actions_adddup2(&actions, in, 0);
  }
  if (out >= 0) {
    posix_spawn_file_actions_adddup2(&actions, out, 1);
  }
  pid_t pid = -1;
  errno = posix_spawnp(&pid, argv[0].c_str(), &actions, nullptr, c_strings(argv).data(), environ);
  if (errno != 0) {
    fail(argv[0]);
  }
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

/// Spawns and waits; the exit code must be 0.
inline void run_to_end(const std::vector<std::string>& argv) {
  int status = 0;
  if (waitpid(spawn(argv), &status, 0) < 0 || status != 0) {
    fail(argv[0]);
  }
}

/// A rex-rpc, spoken to one line a message.
class Server {
 public:
  explicit Server(const std::string& program) {
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
      fail("pipe2");
    }
    pid_ = spawn({program}, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  /// Half-closes and waits, so that nothing of it is left when the next measurement begins.
  ~Server() {
    close(to_);
    waitpid(pid_, nullptr, 0);
    close(from_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  void send(std::uint64_t id, std::string_view method, std::string_view params) {
    line_ = "{\"jsonrpc\":\"2.0\",\"id\":" + std::to_string(id) + ",\"method\":\"";
    line_.append(method).append("\",\"params\":").append(params).append("}\n");
    write_whole(to_, line_);
  }

  /// The next message; valid until the next call.
  std::string_view receive() {
    buffer_.erase(0, taken_);
    std::size_t seen = 0;
    std::size_t end = 0;
    while ((end = buffer_.find('\n', seen)) == std::string::npos) {
      seen = buffer_.size();
      buffer_.resize(seen + chunk);
      const ssize_t n = read(from_, buffer_.data() + seen, chunk);
      if (n <= 0) {
        fail("rex-rpc has gone");
      }
      buffer_.resize(seen + static_cast<std::size_t>(n));
    }
    taken_ = end + 1;
    return std::string_view(buffer_).substr(0, end);
  }

  /// One request and its answer, in which `expected` must occur.
  std::string_view call(std::string_view method, std::string_view params, std::string_view expected) {
    send(++id_, method, params);
    std::string_view answer = receive();
    while (answer.starts_with(R"({"jsonrpc":"2.0","method":)")) {  // news
      answer = receive();
    }
    if (answer.find("\"id\":" + std::to_string(id_)) == std::string_view::npos ||
        answer.find(expected) == std::string_view::npos) {
      fail(std::string(method) + ": " + std::string(answer.substr(0, 2000)));
    }
    return answer;
  }

 private:
  static constexpr std::size_t chunk = 64 * 1024;

  int to_ = -1;
  int from_ = -1;
  pid_t pid_ = -1;
  std::uint64_t id_ = 0;
  std::string line_;
  std::string buffer_;
  std::size_t taken_ = 0;
};

}  // namespace rex::bench
