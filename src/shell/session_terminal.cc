// What a session's output does to its terminal, what is typed in answer to it, and the screen.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "shell/session.h"
#include "shell/waiting_watch.h"

namespace rex::shell {
namespace {

// What an answer waits for a program to turn to its keys; doubles from the first to the last.
constexpr Milliseconds first_look{2};
constexpr Milliseconds last_look{256};

// Modes that a program takes for its own use and must give back. Where all are as they were, what else is other than
// before (`stty -ixon`, the erase character) is a setting.
constexpr tcflag_t lent_input = ICRNL | INLCR | IGNCR;
constexpr tcflag_t lent_output = OPOST | ONLCR;
constexpr tcflag_t lent_local = ICANON | ECHO | ISIG | IEXTEN;

bool gave_back(const termios& now, const termios& usual) {
  return ((now.c_iflag ^ usual.c_iflag) & lent_input) == 0 && ((now.c_oflag ^ usual.c_oflag) & lent_output) == 0 &&
         ((now.c_lflag ^ usual.c_lflag) & lent_local) == 0;
}

bool reads_keys(AsyncFd* terminal) {
  const std::optional<termios> modes = terminal != nullptr ? terminal_modes(terminal->fd()) : std::nullopt;
  return modes && (modes->c_lflag & ICANON) == 0;
}

}  // namespace

/// `bytes` are in the journal now.
void Session::hear(std::string_view bytes, bool from_terminal) {
  AsyncFd* const terminal = from_terminal && incarnation_ ? incarnation_->input() : nullptr;
  const std::optional<termios> modes = terminal != nullptr ? terminal_modes(terminal->fd()) : std::nullopt;
  const Heard heard = terminal_.took(bytes, modes ? &*modes : nullptr);
  if (heard.title) {
    announce({.kind = SessionEvent::Kind::title, .text = terminal_.title()});
  }
  if (heard.bell) {
    announce({.kind = SessionEvent::Kind::bell});
  }
  if (heard.answers.empty() || writer_.is_held(terminal_lease_)) {
    return;
  }
  if (reads_keys(terminal)) {
    type_answers(*incarnation_, heard.answers);
  } else if (current_) {
    spawn(executor_, answer_when_read(shared_from_this(), incarnation_, current_, heard.answers));
  }
}

/// All or nothing: with a queue so full that an answer does not fit, the program reads nothing anyway.
void Session::type_answers(Incarnation& in, const std::string& answers) {
  if (::write(in.input()->fd(), answers.data(), answers.size()) > 0 && waiting_watch_) {
    waiting_watch_->stir(Clock::now());
  }
}

/// A program that asks reads keys, not lines, though some ask first and turn to the keys then (`read -d R`). What only
/// shows a file with a question in it never does, and an answer would lie in wait for whoever reads a line next.
Task<> Session::answer_when_read(std::shared_ptr<Session> self, std::shared_ptr<Incarnation> in,
                                 std::shared_ptr<Job> job, std::string answers) {
  const pid_t asker = in->foreground();
  Waiter waiter(self->executor_);
  for (Milliseconds pause = first_look; pause <= last_look; pause *= 2) {
    co_await waiter.until(Clock::now() + pause);
    if (self->closed_ || self->current_ != job || in->input() == nullptr || in->foreground() != asker) {
      co_return;
    }
    if (reads_keys(in->input())) {
      self->type_answers(*in, answers);
      co_return;
    }
  }
}

/// A job has ended: what it left in force on the terminal would be the next one's. Returns what is to be said of that.
std::vector<std::string> Session::restore_terminal() {
  std::vector<std::string> warnings;
  if (terminal_.restore()) {
    warnings.emplace_back("the screen was left in another mode; it is as it was");
  }
  const bool keeps_its_own = dialect_->feed() == Feed::loop;  // it stands between its prompt's modes and its jobs'
  AsyncFd* const terminal = incarnation_ && options_.tty && !keeps_its_own ? incarnation_->input() : nullptr;
  const std::optional<termios> now = terminal != nullptr ? terminal_modes(terminal->fd()) : std::nullopt;
  if (!now || !usual_modes_) {
    return warnings;
  }
  if (gave_back(*now, *usual_modes_)) {
    usual_modes_ = now;
  } else {
    tcsetattr(terminal->fd(), TCSANOW, &*usual_modes_);
    warnings.emplace_back("the terminal was left in another mode (stty); it is as it was");
  }
  return warnings;
}

ScreenView Session::screen(ScreenOptions options) {
  if (!options_.tty) {
    throw invalid_params("session", "has no terminal, and so no screen");
  }
  return terminal_.view(options);
}

std::string Session::bytes_of_keys(const std::vector<std::string>& keys) const {
  if (!keys.empty() && !options_.tty) {
    throw invalid_params("keys", "the session has no terminal to press keys at");
  }
  std::string bytes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    bytes += key_bytes(keys[i], terminal_.key_modes(), "keys[" + std::to_string(i) + "]");
  }
  return bytes;
}

}  // namespace rex::shell
