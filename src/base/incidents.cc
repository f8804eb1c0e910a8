#include "base/incidents.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "base/fd.h"
#include "base/own_file.h"

// Where this program was loaded, which addresses are told relative to, and where it ends.
extern "C" const char __ehdr_start[];  // NOLINT: the linker's name
extern "C" const char _end[];

namespace rex {
namespace {

constexpr off_t max_file_bytes = off_t{1} << 20;
constexpr off_t max_crash_bytes = 2 * max_file_bytes;  // a crash begins no new file
constexpr std::size_t max_line = 4096;
constexpr int max_frames = 48;
constexpr unsigned crash_patience = 5;  // seconds; a disk that hangs does not keep a process that has crashed

constexpr std::array crashes = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

/// A line that is put together without memory from the heap, which may be what is broken.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const std::size_t n = std::min(text.size(), sizeof text_ - 1 - size_);  // its end always fits
    std::copy_n(text.data(), n, text_ + size_);
    size_ += n;
    return *this;
  }
  Line& number(std::uint64_t value, int base = 10, std::size_t digits = 1) {
    char text[24];
    const char* const end = std::to_chars(text, text + sizeof text, value, base).ptr;
    for (auto have = static_cast<std::size_t>(end - text); have < digits; ++have) {
      *this << "0";
    }
    return *this << std::string_view(text, end);
  }
  /// format_time() takes memory.
  Line& time_now() {
    namespace chrono = std::chrono;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const chrono::sys_seconds second{chrono::seconds(now.tv_sec)};
    const auto day = chrono::floor<chrono::days>(second);
    const chrono::year_month_day date(day);
    const chrono::hh_mm_ss time(second - day);
    const auto two = [this](auto value) -> Line& { return number(static_cast<std::uint64_t>(value), 10, 2); };
    two(int(date.year())) << "-";
    two(unsigned(date.month())) << "-";
    two(unsigned(date.day())) << "T";
    two(time.hours().count()) << ":";
    two(time.minutes().count()) << ":";
    return two(time.seconds().count()) << "Z";
  }
  void write_to(int fd) {
    text_[size_] = '\n';
    [[maybe_unused]] const ssize_t n = ::write(fd, text_, size_ + 1);  // whole: others append too
  }

 private:
  char text_[max_line];
  std::size_t size_ = 0;
};

/// All that is known when a signal comes: set once, before threads.
struct Noting {
  char path[4096] = "";
  char program[256] = "rex-rpc";
} noting;

template <std::size_t size>
void keep(char (&place)[size], std::string_view text) {
  place[text.copy(place, size - 1)] = '\0';
}

/// -1 where there is none, or it is not this user's alone. Makes what is missing of its directories.
int open_file(off_t* size) {
  char path[sizeof noting.path];
  std::copy_n(noting.path, sizeof path, path);
  for (char* at = path[0] == '\0' ? path : path + 1; *at != '\0'; ++at) {
    if (*at == '/') {
      *at = '\0';
      ::mkdir(path, 0700);
      *at = '/';
    }
  }
  constexpr int how = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;  // a FIFO would hold us up
  const int fd = path[0] == '\0' ? -1 : ::open(path, how, 0600);
  struct stat found{};
  if (fd >= 0 && (::fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != ::geteuid() ||
                  (found.st_mode & 0077) != 0)) {
    ::close(fd);
    return -1;
  }
  *size = found.st_size;
  return fd;
}

Line& begin(Line& line, pid_t who = ::getpid()) {
  return (line.time_now() << " " << noting.program << ", pid ").number(static_cast<std::uint64_t>(who)) << ": ";
}

void note_places(int fd, std::string_view what, pid_t who = ::getpid()) {
  std::array<void*, max_frames> frames{};
  const int count = ::backtrace(frames.data(), max_frames);
  Line places;
  begin(places, who) << what << " at";
  for (int i = 0; i < count; ++i) {
    const auto* const place = static_cast<const char*>(frames[static_cast<std::size_t>(i)]);
    places << " ";
    if (place >= __ehdr_start && place < _end) {
      places.number(static_cast<std::uint64_t>(place - __ehdr_start), 16);
    } else {
      places << "library";
    }
  }
  places.write_to(fd);
}

void crashed(int signal, siginfo_t* info, void* /*context*/) {
  ::alarm(crash_patience);
  off_t size = 0;
  const int fd = open_file(&size);
  if (fd >= 0 && size < max_crash_bytes) {
    Line line;
    begin(line) << "crashed by SIG" << sigabbrev_np(signal);
    if (info->si_code <= 0) {
      (line << ", sent by pid ").number(static_cast<std::uint64_t>(info->si_pid));
    }
    line.write_to(fd);  // now: what follows may crash too
    note_places(fd, "crashed");
  }
  ::raise(signal);  // as the default has it, once this returns
}

}  // namespace

std::string incident_file() {
  const std::string state = own_directory("XDG_STATE_HOME", ".local/state");
  return state.empty() ? "" : state + "/rex-rpc/incidents.log";
}

void note_incident(std::string_view what) {
  off_t size = 0;
  Fd file(open_file(&size));
  if (file && size > max_file_bytes) {
    const std::string path = noting.path;
    ::rename(path.c_str(), (path + ".1").c_str());
    file = Fd(open_file(&size));
  }
  if (file) {
    Line line;
    begin(line) << what;
    line.write_to(file.get());
  }
}

void note_here(std::string_view what, pid_t who) {
  off_t size = 0;
  const int fd = open_file(&size);
  if (fd < 0) {
    return;
  }
  if (size < max_crash_bytes) {
    Line line;
    begin(line, who) << what;
    line.write_to(fd);
    note_places(fd, "it is", who);
  }
  ::close(fd);
}

void note_crashes(std::string_view program) {
  const std::string path = incident_file();
  keep(noting.path, path.size() < sizeof noting.path ? path : "");
  keep(noting.program, program);
  std::array<void*, 1> loads_the_unwinder{};
  ::backtrace(loads_the_unwinder.data(), 1);
  static std::array<char, 64 << 10> stack;  // for one that has none left
  const stack_t own{stack.data(), 0, stack.size()};
  stack_t there{};
  if (::sigaltstack(nullptr, &there) == 0 && (there.ss_flags & SS_DISABLE) != 0) {
    ::sigaltstack(&own, nullptr);
  }
  for (const int crash : crashes) {
    struct sigaction before{};
    ::sigaction(crash, nullptr, &before);
    if (before.sa_handler != SIG_DFL) {
      continue;  // a sanitizer's, which tells more
    }
    struct sigaction action{};
    action.sa_sigaction = crashed;
    for (const int other : crashes) {
      sigaddset(&action.sa_mask, other);
    }
    action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
    ::sigaction(crash, &action, nullptr);
  }
}

}  // namespace rex
