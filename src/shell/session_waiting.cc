// What a session says of a program that waits for input, and what it does with a secret.
#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "shell/session.h"
#include "shell/waiting_watch.h"

namespace rex::shell {
namespace {

// How far back the last line shown is looked for, and how much of it is told.
constexpr Offset prompt_bytes = 4096;
constexpr std::size_t max_prompt_text = 512;

// How long a program may take from its prompt to its read, for a secret that came right behind the prompt.
constexpr Milliseconds secret_patience{1000};

/// The last line in which there is something.
std::string_view last_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find_last_not_of("\r\n");
    text = text.substr(0, end == std::string_view::npos ? 0 : end + 1);
    const std::size_t begin = text.find_last_of("\r\n");
    const std::string_view line = text.substr(begin == std::string_view::npos ? 0 : begin + 1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) {
      return line;
    }
    text.remove_suffix(line.size());
  }
  return text;
}

}  // namespace

/// For a new incarnation, if it has a terminal.
void Session::watch_terminal() {
  waiting_watch_.reset();
  if (!incarnation_->tty()) {
    return;
  }
  const std::weak_ptr<Session> weak = weak_from_this();
  auto changed = [weak] {
    if (const std::shared_ptr<Session> self = weak.lock()) {
      self->waiting_changed();
    }
  };
  auto alternate = [weak] {
    const std::shared_ptr<Session> self = weak.lock();
    return self && self->terminal_.alternate();
  };
  waiting_watch_ = std::make_shared<WaitingWatch>(executor_, incarnation_, std::move(changed), std::move(alternate));
}

void Session::waiting_changed() {
  if (reads_input()) {
    announce({.kind = SessionEvent::Kind::waiting_input, .job = current_->id(), .waiting = waiting()});
  }
  announce_state();
  changed_.notify();
}

/// Not said of a program before it is known whether it took the place of our shell.
bool Session::reads_input() const {
  // A shell at its own line editor has not begun with the job, or is done with it (fish, after an interrupt).
  const auto at_a_prompt = [this] {
    return incarnation_->driver() != nullptr && incarnation_->driver()->at_a_prompt();
  };
  return current_ && incarnation_ && !incarnation_->in_doubt && waiting_watch_ && waiting_watch_->is_reading() &&
         !at_a_prompt();
}

bool Session::foreground_stopped() const {
  return current_ && waiting_watch_ && waiting_watch_->verdict() == WaitingProbe::Verdict::stopped;
}

bool Session::can_tell_waiting() const { return waiting_watch_ && waiting_watch_->can_tell(); }

std::optional<Waiting> Session::waiting() {
  if (!current_ || !waiting_watch_ || !waiting_watch_->waiting()) {
    return std::nullopt;
  }
  std::optional<Waiting> told = waiting_watch_->waiting();
  const Offset end = journal_.end();
  const Offset from = std::max({current_->from, journal_.oldest(), end - std::min(end, prompt_bytes)});
  const std::string text = collect(from, end, {.view = View::clean, .max_bytes = 2 * prompt_bytes}).output;
  std::string_view line = last_line(text);
  if (line.size() > max_prompt_text) {  // its end says what is asked
    line.remove_prefix(line.size() - max_prompt_text);
    line.remove_prefix(cut_utf8_head(line));
  }
  told->text = line;
  return told;
}

/// Throws InputRefused `noSecretPrompt` unless the program reads a line that the terminal hides.
Task<> Session::await_secret_prompt(std::shared_ptr<Incarnation> in) {
  Waiter waiter(executor_);
  waiter.subscribe(changed_);
  const TimePoint deadline = Clock::now() + secret_patience;
  const auto asks = [this] { return reads_input() && waiting_watch_->waiting()->kind == WaitingKind::secret; };
  while (current_ && !closed_ && !asks() && Clock::now() < deadline) {
    co_await waiter.until(deadline);
  }
  const std::optional<termios> modes =
      in->tty() && in->input() != nullptr ? terminal_modes(in->input()->fd()) : std::nullopt;
  if (!asks() || !modes || (modes->c_lflag & ICANON) == 0 || (modes->c_lflag & ECHO) != 0) {
    throw Error(Fault::InputRefused, "no program asks for a secret: what is typed now would be shown and kept")
        .with("reason", std::string("noSecretPrompt"));
  }
}

}  // namespace rex::shell
