#include "shell/waiting_probe.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "shell/pty.h"

namespace rex::shell {
namespace {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;

// Programs print a prompt and then read: that moment is given to them before the first look, and again before the one
// that must agree.
constexpr Milliseconds settle_time{10};
constexpr Milliseconds confirm_time{15};
constexpr Milliseconds longest_pause{250};
constexpr int pause_share = 20;
constexpr int cost_share = 50;

// A shell tells of a stop itself, as soon as it has come to it: who is told before finds that it takes nothing yet. One
// that goes on working beside a stopped job does not tell.
constexpr Milliseconds shell_patience{1000};

// What has not run has not changed; only who is not in the foreground yet can come to it unseen.
constexpr Milliseconds full_look_interval{1000};

// A poll with a time-out comes again and again. It is a wait for keys when it shows nothing and does next to nothing.
constexpr Milliseconds timed_quiet{80};
constexpr double idle_share = 0.05;
// The same for the reader's other threads: beside a thread that works, one that reads is only listening.
constexpr double working_share = 0.10;
constexpr Milliseconds working_time{500};

constexpr auto editors = std::to_array<std::string_view>({"vi", "vim", "nvim", "vimdiff", "view", "nano", "emacs",
                                                          "micro", "joe", "ed", "pico", "ne", "hx", "kak", "mcedit"});
constexpr auto pagers = std::to_array<std::string_view>({"pager", "less", "more", "most", "pg", "man", "bat", "moar"});

/// Whether `name` is one of `names`, or a variant of it: vim.tiny, emacs-nox.
template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
  const std::string_view stem = name.substr(0, name.find_first_of(".-"));
  return std::find(names.begin(), names.end(), stem) != names.end();
}

/// Whether the program wrote what has not been read yet. Asking makes the kernel pass it on first.
bool has_unread_output(int master) {
  pollfd output{master, POLLIN, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLIN) != 0;
}

/// Brings what was typed to its reader, if that lies in the kernel's buffer still: a worker does it when there is time,
/// 124 ms later on a busy machine, and until then the reader sleeps beside an empty queue.
void deliver_input(int slave) {
  pollfd input{slave, POLLIN, 0};
  poll(&input, 1, 0);
}

bool same_reader(const ForegroundLook& a, const ForegroundLook& b) {
  const bool both_poll = a.best.block >= Block::several && b.best.block >= Block::several;
  return a.best.thread == b.best.thread && a.best.thread != 0 && (both_poll || a.best.block == b.best.block) &&
         a.group == b.group && a.modes.c_lflag == b.modes.c_lflag;
}

double share(double ran_ns, Clock::duration of) {
  const auto whole = static_cast<double>(duration_cast<nanoseconds>(of).count());
  return whole > 0 ? ran_ns / whole : 0;
}

const ThreadState* find_thread(const ForegroundLook& look, pid_t thread) {
  const auto found = std::find_if(look.all.begin(), look.all.end(),
                                  [thread](const ThreadState& state) { return state.thread == thread; });
  return found == look.all.end() ? nullptr : &*found;
}

double ran_since(const ForegroundLook& earlier, const ThreadState& state) {
  const ThreadState* const before = find_thread(earlier, state.thread);
  return before != nullptr ? static_cast<double>(state.run_ns - before->run_ns) : 0;
}

bool refused_ones_slept(const ForegroundLook& earlier, const ForegroundLook& later) {
  return std::all_of(later.all.begin(), later.all.end(), [&earlier](const ThreadState& state) {
    const ThreadState* const before = find_thread(earlier, state.thread);
    return state.block != Block::refused || (before != nullptr && state.has_slept_since(*before));
  });
}

}  // namespace

WaitingProbe::WaitingProbe(int master, int slave, pid_t root, std::function<bool()> alternate_screen)
    : master_(master),
      slave_(slave),
      terminal_(terminal_id(slave)),
      root_(root),
      alternate_screen_(std::move(alternate_screen)) {}

void WaitingProbe::command_began(TimePoint now) {
  const std::optional<termios> modes = terminal_modes(master_);
  began_ = clock_ticks_now();
  secretive_before_ = modes && (modes->c_lflag & ECHO) == 0;
  stir(now);
}

void WaitingProbe::stir(TimePoint now) {
  stirred_ = now;
  verdict_ = Verdict::unsettled;
  waiting_.reset();
  last_ = {};
  stopped_since_ = never;
}

Clock::duration WaitingProbe::look(TimePoint now) {
  if (now < stirred_ + settle_time) {
    return stirred_ + settle_time - now;
  }
  if (has_unread_output(master_)) {  // whoever reads it will tell us to stir; a claim must not overtake it
    stir(now);
    return settle_time;
  }
  if (verdict_ != Verdict::unsettled && now - last_at_ < full_look_interval && is_as_before(master_, last_)) {
    return pause(now);
  }
  deliver_input(slave_);
  ForegroundLook next = look_at_foreground(master_, terminal_, root_, began_);
  cost_ = Clock::now() - now;
  judge(next, now);
  last_ = std::move(next);
  last_at_ = now;
  return pause(now);
}

Clock::duration WaitingProbe::pause(TimePoint now) const {
  const Clock::duration longest = std::max<Clock::duration>(longest_pause, cost_ * cost_share);
  const Clock::duration shortest = std::max<Clock::duration>(confirm_time, cost_ * cost_share);
  return std::clamp<Clock::duration>((now - stirred_) / pause_share, shortest, longest);
}

void WaitingProbe::judge(const ForegroundLook& next, TimePoint now) {
  stopped_since_ = next.stopped ? std::min(stopped_since_, now) : never;
  if (!same_reader(last_, next)) {
    row_since_ = now;
    window_ = next;
    window_at_ = now;
  } else if (now - window_at_ > working_time) {  // what it did long ago says nothing of now
    window_ = last_;
    window_at_ = last_at_;
  }
  const bool again = row_since_ != now;
  const Block block = next.stopped ? Block::elsewhere : next.best.block;
  if (block == Block::several && again) {
    find(WaitingHow::listening, Evidence::syscall, next);
  } else if (block == Block::refused && asks_for_secret(next) && again && refused_ones_slept(last_, next)) {
    find(WaitingHow::reading, Evidence::termios, next);
  } else if (block > Block::several && again && is_confirmed(next, now)) {
    find(others_work(next, now) ? WaitingHow::listening : WaitingHow::reading, Evidence::syscall, next);
  } else {
    waiting_.reset();
    const bool comes_from_shell = next.to_be_told && now - stopped_since_ < shell_patience;
    const bool unknown = block == Block::unclear || (block == Block::refused && !asks_for_secret(next));
    verdict_ = comes_from_shell                                                                ? Verdict::unsettled
               : next.stopped && last_.stopped                                                 ? Verdict::stopped
               : unknown                                                                       ? Verdict::unknown
               : block == Block::elsewhere || block == Block::child || block == Block::running ? Verdict::elsewhere
                                                                                               : Verdict::unsettled;
  }
}

/// Only that the terminal began to hide what is typed while this command ran says so; an earlier one may have left it
/// that way.
bool WaitingProbe::asks_for_secret(const ForegroundLook& look) const {
  return look.asks_secret() && !secretive_before_;
}

/// Whether what waits for the terminal has done so since the last look, and has taken all that was typed.
bool WaitingProbe::is_confirmed(const ForegroundLook& next, TimePoint now) const {
  if (!input_is_consumed(next, now)) {
    return false;
  }
  if (others_work(next, now) && now - row_since_ < working_time) {
    return false;  // an interpreter that still clears up, or a program that reads beside its work: time tells
  }
  if (next.best.block != Block::timed) {
    return next.best.has_slept_since(last_.best) || !next.best.counted;
  }
  const bool quiet = now - row_since_ >= timed_quiet && now - stirred_ >= timed_quiet;
  return quiet && share(ran_since(window_, next.best), now - window_at_) < idle_share;
}

/// Whether other threads of the reader's process have been at work lately.
bool WaitingProbe::others_work(const ForegroundLook& next, TimePoint now) const {
  double ran = 0;
  for (const ThreadState& state : next.all) {
    if (state.pid == next.best.pid && state.thread != next.best.thread) {
      ran += ran_since(window_, state);
    }
  }
  return share(ran, now - window_at_) > working_share;
}

/// What is still in the terminal's queue has not been read, so its reader has not come back for more. A program that
/// wants several keys at once (VMIN) sleeps beside fewer.
bool WaitingProbe::input_is_consumed(const ForegroundLook& next, TimePoint now) const {
  int queued = 0;
  if (next.inner || ioctl(slave_, FIONREAD, &queued) != 0 || queued == 0) {
    return true;
  }
  const bool raw = (next.modes.c_lflag & ICANON) == 0;
  return next.best.block == Block::read && raw && now - stirred_ > working_time;
}

void WaitingProbe::find(WaitingHow how, Evidence evidence, const ForegroundLook& look) {
  verdict_ = Verdict::waiting;
  waiting_ = Waiting{kind_of(look), how, evidence, look.best.pid, look.command, {}};
}

WaitingKind WaitingProbe::kind_of(const ForegroundLook& look) const {
  if (look.asks_secret()) {
    return WaitingKind::secret;
  }
  if (!look.modes_known || (look.modes.c_lflag & ICANON) != 0) {
    return WaitingKind::line;
  }
  if (is_one_of(editors, look.command)) {
    return WaitingKind::editor;
  }
  if (is_one_of(pagers, look.command)) {
    return WaitingKind::pager;
  }
  if (!alternate_screen_()) {
    return WaitingKind::line;
  }
  return look.best.block == Block::read && reads_a_pipe(look.best.pid) ? WaitingKind::pager : WaitingKind::fullscreen;
}

}  // namespace rex::shell
