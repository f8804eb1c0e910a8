#include "shell/foreground.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>

#include "base/fd.h"
#include "shell/proc_file.h"
#include "shell/pty.h"

namespace rex::shell {
namespace {

// Programs that run a terminal of their own in ours, in each other.
constexpr int max_depth = 4;
// A look of more threads than this is not worth comparing: the next full one is as cheap.
constexpr std::size_t max_compared_threads = 16;

struct ProcessStat {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  int tty_nr = 0;
  pid_t tty_group = 0;
  char state = 0;
  int threads = 0;
  unsigned long long start = 0;  // in clock ticks since boot
  std::string name;
};

using Family = std::map<pid_t, ProcessStat>;

std::optional<ProcessStat> stat_of_process(pid_t pid) {
  ProcFile file;
  const std::string_view text = file.read(pid, "stat");
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');  // the name may hold anything
  ProcessStat stat;
  stat.pid = pid;
  if (open == std::string_view::npos || close == std::string_view::npos ||
      std::sscanf(text.data() + close + 1,
                  " %c %d %d %*d %d %d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %llu", &stat.state,
                  &stat.parent, &stat.group, &stat.tty_nr, &stat.tty_group, &stat.threads, &stat.start) != 7) {
    return std::nullopt;
  }
  stat.name = text.substr(open + 1, close - open - 1);
  return stat;
}

std::vector<pid_t> threads_of(const ProcessStat& process) {
  if (process.threads <= 1) {
    return {process.pid};
  }
  std::vector<pid_t> threads;
  const std::string folder = "/proc/" + std::to_string(process.pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  while (const dirent* entry = entries ? readdir(entries.get()) : nullptr) {
    if (entry->d_name[0] != '.') {
      threads.push_back(static_cast<pid_t>(std::atoi(entry->d_name)));
    }
  }
  return threads;
}

void add_children(pid_t pid, pid_t thread, std::vector<pid_t>& all) {
  ProcFile file;
  const char* at = file.read(pid, thread, "children").data();
  while (true) {
    char* end = nullptr;
    const long child = std::strtol(at, &end, 10);
    if (end == at) {
      break;
    }
    all.push_back(static_cast<pid_t>(child));
    at = end;
  }
}

/// All below `root`, or too many.
std::optional<Family> family_of(pid_t root) {
  Family family;
  std::vector<pid_t> found;
  add_children(root, root, found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i >= max_looked_at_processes) {
      return std::nullopt;
    }
    std::optional<ProcessStat> process = stat_of_process(found[i]);
    if (!process) {
      continue;
    }
    for (const pid_t thread : threads_of(*process)) {
      add_children(process->pid, thread, found);
    }
    family[process->pid] = std::move(*process);
  }
  return family;
}

bool is_alive(const ProcessStat& process) { return process.state != 'Z' && process.state != 'X'; }
bool is_stopped(const ProcessStat& process) { return process.state == 'T'; }
bool is_traced(const ProcessStat& process) { return process.state == 't'; }

/// Looks at one terminal's users; at an inner terminal's where ours is only handed on to it.
class Judge {
 public:
  Judge(const Family& family, unsigned long long since, ForegroundLook& look)
      : family_(family), since_(since), look_(look) {}

  void judge(pid_t group, const TerminalId& terminal, int depth) {
    look_.group = depth == 0 ? group : look_.group;
    const auto has_it = [&](const ProcessStat& p) { return p.group == group && p.tty_nr == terminal.tty_nr; };
    ThreadState best;
    std::size_t members = 0;
    std::size_t stopped = 0;
    for (const auto& [pid, process] : family_) {
      const bool foreground = has_it(process);
      if (!is_alive(process) || (!foreground && process.tty_nr != 0)) {
        continue;
      }
      members += foreground ? 1 : 0;
      if (is_stopped(process) || is_traced(process)) {
        stopped += foreground && is_stopped(process) ? 1 : 0;
        continue;
      }
      // One that has left our terminal's session may read it all the same (setsid -w, a pinentry); but one of an
      // earlier command is not what this one waits for.
      const bool belongs = foreground || process.start >= since_ || descends(process, has_it);
      look_at_threads(process, terminal, belongs ? Block::read : Block::several, foreground, best);
    }
    look_.stopped = members != 0 && (members == stopped || (best.block == Block::child && waits_for_stopped(has_it)));
    look_.to_be_told = look_.stopped && is_to_be_told(has_it);
    if (members == 0 && best.block == Block::elsewhere && is_hidden(group)) {
      best.pid = best.thread = group;
      best.block = Block::refused;
    }
    const bool raw = look_.modes_known && (look_.modes.c_lflag & ICANON) == 0;
    if (best.block > Block::several && raw && has_foreign_sibling(best)) {
      best.block = Block::several;
    }
    take_best(best);
    if (best.block <= Block::several && raw && depth < max_depth) {
      judge_inner(terminal, has_it, depth);
    }
  }

 private:
  /// Whether there are processes of that group that we are not shown (hidepid); else it is over, and who made it has
  /// not waited for it or not taken the terminal back yet.
  [[nodiscard]] bool is_hidden(pid_t group) const {
    const bool is_seen =
        std::any_of(family_.begin(), family_.end(), [group](const auto& each) { return each.second.group == group; });
    return !is_seen && group > 0 && (kill(-group, 0) == 0 || errno != ESRCH);
  }

  /// Keys are read in one thread and passed on in another: docker exec -it. A program that asks for a line while its
  /// other threads wait for their sockets (terraform) does wait for the line.
  [[nodiscard]] bool has_foreign_sibling(const ThreadState& reader) const {
    return std::any_of(look_.all.begin(), look_.all.end(),
                       [&reader](const ThreadState& state) { return state.pid == reader.pid && state.foreign; });
  }

  /// Whether whoever has the terminal only waits for descendants that do not go on: `cat & wait`.
  template <class Fact>
  [[nodiscard]] bool waits_for_stopped(const Fact& has_it) const {
    bool any = false;
    for (const auto& [pid, process] : family_) {
      if (!is_alive(process) || has_it(process) || !descends(process, has_it)) {
        continue;
      }
      if (!is_stopped(process)) {
        return false;
      }
      any = true;
    }
    return any && std::all_of(look_.all.begin(), look_.all.end(),
                              [](const ThreadState& state) { return state.block == Block::child; });
  }

  /// Whether a shell that has them in the foreground may not have come to it yet, that they are stopped.
  template <class Fact>
  [[nodiscard]] bool is_to_be_told(const Fact& has_it) const {
    return std::any_of(family_.begin(), family_.end(), [&](const auto& each) {
      const auto parent = has_it(each.second) ? family_.find(each.second.parent) : family_.end();
      return parent != family_.end() && !has_it(parent->second) &&
             (parent->second.state == 'R' || parent->second.state == 'D');
    });
  }

  template <class Fact>
  [[nodiscard]] bool descends(const ProcessStat& process, const Fact& fact) const {
    const ProcessStat* at = &process;
    for (std::size_t i = 0; i < family_.size(); ++i) {
      const auto parent = family_.find(at->parent);
      if (parent == family_.end()) {
        return false;
      }
      at = &parent->second;
      if (fact(*at)) {
        return true;
      }
    }
    return false;
  }

  void look_at_threads(const ProcessStat& process, const TerminalId& terminal, Block most, bool foreground,
                       ThreadState& best) {
    for (const pid_t thread : threads_of(process)) {
      if (look_.all.size() >= max_looked_at_threads) {
        return;
      }
      ThreadState state = look_at_thread(process.pid, thread, process.tty_nr, process.state, terminal);
      state.block = std::min(state.block, most);
      if (!foreground && state.block < Block::several) {
        continue;  // nothing of the terminal's
      }
      look_.all.push_back(state);
      if (state.block > best.block) {
        best = state;
      }
    }
  }

  void take_best(const ThreadState& best) {
    look_.best = best;
    const auto process = family_.find(best.pid);
    look_.command = process == family_.end() ? "" : process->second.name;
  }

  /// sudo with use_pty, script, expect: a descendant of the foreground sits on a terminal that one of it made.
  template <class Fact>
  void judge_inner(const TerminalId& outer, const Fact& has_outer, int depth) {
    for (const auto& [pid, process] : family_) {
      const int number = pts_number(process.tty_nr);
      if (number < 0 || process.tty_nr == outer.tty_nr || process.tty_group <= 0 || !is_alive(process) ||
          !descends(process, has_outer)) {
        continue;
      }
      const std::string path = "/dev/pts/" + std::to_string(number);
      const Fd terminal(open(path.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
      TerminalId inner = terminal ? terminal_id(terminal.get()) : outer;
      struct stat node{};
      if (!terminal && stat(path.c_str(), &node) == 0) {
        inner.device = node.st_rdev;
        inner.file_system = node.st_dev;
      }
      inner.tty_nr = process.tty_nr;
      const std::optional<termios> modes = terminal ? terminal_modes(terminal.get()) : std::nullopt;
      look_.modes_known = modes.has_value();
      look_.modes = modes.value_or(termios{});
      look_.inner = true;
      judge(process.tty_group, inner, depth + 1);
      return;
    }
  }

  const Family& family_;
  unsigned long long since_;
  ForegroundLook& look_;
};

}  // namespace

ForegroundLook look_at_foreground(int master, const TerminalId& terminal, pid_t root, unsigned long long since) {
  ForegroundLook look;
  const std::optional<termios> modes = terminal_modes(master);
  look.modes = modes.value_or(termios{});
  look.modes_known = modes.has_value();
  const std::optional<pid_t> group = foreground_group(master);
  const std::optional<Family> family = group ? family_of(root) : std::nullopt;
  if (!family) {
    look.best.block = Block::unclear;
    return look;
  }
  Judge(*family, since, look).judge(*group, terminal, 0);
  return look;
}

unsigned long long clock_ticks_now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const auto ticks = static_cast<unsigned long long>(sysconf(_SC_CLK_TCK));
  return static_cast<unsigned long long>(now.tv_sec) * ticks +
         static_cast<unsigned long long>(now.tv_nsec) * ticks / 1'000'000'000;
}

bool is_as_before(int master, const ForegroundLook& earlier) {
  const std::optional<termios> modes = terminal_modes(master);
  if (earlier.all.empty() || earlier.all.size() > max_compared_threads || !modes ||
      (!earlier.inner && modes->c_lflag != earlier.modes.c_lflag) ||
      foreground_group(master).value_or(0) != earlier.group) {
    return false;
  }
  return std::all_of(earlier.all.begin(), earlier.all.end(), [](const ThreadState& state) {
    return count_thread(state.pid, state.thread).has_slept_since(state);
  });
}

}  // namespace rex::shell
