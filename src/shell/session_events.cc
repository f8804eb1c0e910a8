// The listeners, what Session announces to them, and its lease on typing, whose changes it announces.
#include "shell/session_events.h"

#include <utility>

#include "base/time.h"
#include "shell/session.h"

namespace rex::shell {

SessionEvents::Listener::Listener(std::shared_ptr<SessionEvents> events, std::function<void(const SessionEvent&)> hear)
    : events_(std::move(events)), hear_(std::move(hear)) {
  events_->listeners_.push_back(this);
}

SessionEvents::Listener::~Listener() { std::erase(events_->listeners_, this); }

void SessionEvents::tell(const SessionEvent& event) const {
  for (const Listener* listener : listeners_) {
    listener->hear_(event);
  }
}

void Session::announce(SessionEvent event) {
  ++newest_event_;
  if (events_->heard()) {
    stamp(event);
    events_->tell(event);
  }
}

SessionEvent Session::what_is_now(SessionEvent::Kind kind) {
  SessionEvent event{.kind = kind};
  stamp(event);
  return event;
}

void Session::stamp(SessionEvent& event) {
  event.session = name();
  event.state = state();
  event.at = journal_.end();
  event.time = now_utc();
  event.seq = newest_event_;
}

/// Announces the state if it is another one than was told last. A session that is being closed has no state to tell
/// before its end.
void Session::announce_state() {
  const SessionState now = state();
  if (closed_ && now != SessionState::exited) {
    return;
  }
  if (std::exchange(told_state_, now) != now) {
    announce({.kind = SessionEvent::Kind::state_changed});
  }
}

/// The end of the shell, or of the program of a session without one; once for each.
void Session::announce_exit(Incarnation& which) {
  if (std::exchange(told_exit_of_, generation_) == generation_) {
    return;
  }
  SessionEvent event{.kind = SessionEvent::Kind::shell_exited};
  if (const std::optional<ProgramExit>& exit = which.program().exit()) {
    event.exit_code = exit->exit_code();
    event.signal = exit->signal();
  }
  announce(std::move(event));
}

std::uint64_t Session::take_writer(std::uint64_t client, std::string name, bool takeover) {
  const std::uint64_t lease = writer_.take(client, std::move(name), takeover);
  announce({.kind = SessionEvent::Kind::writer_changed, .text = *writer_.holder()});
  return lease;
}

void Session::leave_writer(std::uint64_t lease) {
  if (writer_.leave(lease)) {
    announce({.kind = SessionEvent::Kind::writer_changed});
  }
}

void Session::move_to(std::string cwd) {
  if (cwd != cwd_) {
    cwd_ = std::move(cwd);
    announce({.kind = SessionEvent::Kind::cwd, .text = cwd_});
  }
}

}  // namespace rex::shell
