#include "base/watchdog.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/error.h"
#include "base/incidents.h"

namespace rex {
namespace {

// Of a processor, between two looks; in seconds.
constexpr time_t between = 10;

// How long it may take to note it, in seconds.
constexpr unsigned note_patience = 5;

}  // namespace

/// What the handler asks of the loop, and whether it has answered.
struct Watchdog::Asked {
  Asked(Executor executor, bool ends_process)
      : event(executor, Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))), ends(ends_process) {}

  /// On the loop's thread, in the midst of whatever it does.
  static void look(int signal, siginfo_t* info, void* /*context*/) {
    if (info->si_code != SI_TIMER) {
      return;  // from somebody else
    }
    auto& asked = *static_cast<Asked*>(info->si_value.sival_ptr);
    const int error = errno;
    if (!asked.waits.exchange(true)) {
      const std::uint64_t once = 1;
      [[maybe_unused]] const ssize_t n = ::write(asked.event.fd(), &once, sizeof once);
    } else if (!asked.told.exchange(true)) {
      // The user's home may hang, and this must not: by a process of its own, or by one that ends in any case.
      const pid_t self = ::getpid();
      const bool notes = asked.ends || ::_Fork() == 0;
      if (notes) {
        if (!asked.ends) {
          ::close_range(STDERR_FILENO + 1, ~0U, 0);  // as of Linux 5.9; it keeps nothing open
        }
        std::signal(SIGALRM, SIG_DFL);
        ::alarm(note_patience);
        note_here("the loop has not turned for 10 s of computing", self);
      }
      if (asked.ends) {
        std::signal(signal, SIG_DFL);
        ::raise(signal);  // once this returns
      } else if (notes) {
        ::_exit(0);
      }
    }
    errno = error;
  }

  AsyncFd event;
  const bool ends;
  std::atomic<bool> waits = false;
  std::atomic<bool> told = false;  // of this time
};

Watchdog::Watchdog(Executor executor, bool ends) {
  try {
    asked_ = std::make_shared<Asked>(executor, ends);
  } catch (const Error&) {
    return;  // no descriptor is left for it
  }
  struct sigaction action{};
  action.sa_sigaction = &Asked::look;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGVTALRM;
  event.sigev_value.sival_ptr = asked_.get();
  event._sigev_un._tid = ::gettid();
  const itimerspec each{{between, 0}, {between, 0}};
  watches_ =
      ::sigaction(SIGVTALRM, &action, nullptr) == 0 && ::timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
  if (watches_) {
    sigset_t alarms;  // whoever started us may have blocked them
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGVTALRM);
    sigaddset(&alarms, SIGALRM);
    ::pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
    ::timer_settime(timer_, 0, &each, nullptr);
    spawn(executor, answer(asked_));
  }
}

Watchdog::~Watchdog() {
  if (watches_) {
    ::timer_delete(timer_);
    std::signal(SIGVTALRM, SIG_IGN);  // also one that is on its way
    asked_->event.close();
  }
}

Task<> Watchdog::answer(std::shared_ptr<Asked> asked) {
  while (co_await asked->event.readable()) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(asked->event.fd(), &count, sizeof count);
    asked->waits = false;
    asked->told = false;
  }
}

}  // namespace rex
