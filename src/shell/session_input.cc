#include "shell/session_input.h"

#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/secret.h"

namespace rex::shell {
namespace {

// A canonical terminal holds one line of at most this, newline included, and silently drops what is beyond.
constexpr std::size_t max_line_bytes = 4095;

// How long a write waits for room without any progress before it says how much was taken.
constexpr Milliseconds patience{1000};

/// The longest line of `data` where `begun` bytes of its first one were typed before; `begun` becomes those of the
/// last.
std::size_t longest_line(std::string_view data, std::size_t& begun) {
  std::size_t longest = 0;
  while (!data.empty()) {
    const std::size_t end = data.find_first_of("\r\n");
    longest = std::max(longest, begun + std::min(end, data.size()) + 1);
    begun = end == std::string_view::npos ? begun + data.size() : 0;
    data.remove_prefix(end == std::string_view::npos ? data.size() : end + 1);
  }
  return longest;
}

/// Where the last key lies that signals and throws away what is unread before it; npos where none does.
std::size_t last_signal_key(std::string_view data, const termios& modes) {
  std::size_t last = std::string_view::npos;
  if ((modes.c_lflag & ISIG) != 0 && (modes.c_lflag & NOFLSH) == 0) {
    for (const int key : {VINTR, VQUIT, VSUSP}) {
      const std::size_t at = modes.c_cc[key] != _POSIX_VDISABLE ? data.rfind(static_cast<char>(modes.c_cc[key])) : last;
      last = at != std::string_view::npos && (last == std::string_view::npos || at > last) ? at : last;
    }
  }
  return last;
}

Error refusal(const char* reason, const std::string& why) {
  return Error(Fault::InputRefused, why).with("reason", std::string(reason));
}

/// A terminal whose buffer is full of lines that nobody reads looks at no key behind them (n_tty), an interrupt
/// included; once it did, it would throw them away (test_scenarios_e.py, E12).
void discard_unread(const Incarnation& in) { tcflush(in.slave(), TCIFLUSH); }

[[noreturn]] void refuse_closed(Executed executed) {
  throw refusal("closed", "the program does not read its input any more").executed(executed);
}

}  // namespace

/// While it lives no other write goes on; then the next one's turn comes.
class SessionInput::Turn {
 public:
  explicit Turn(SessionInput& of) : of_(of) {}
  ~Turn() {
    ++of_.turn_;
    of_.turn_changed_.notify();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  SessionInput& of_;
};

/// How many of `size` bytes were taken when they were written before.
std::size_t SessionInput::taken_before(const Typing& typing, std::size_t size) const {
  if (!typing.offset) {
    return 0;
  }
  if (*typing.offset > offset_) {
    throw refusal("gap", "only " + std::to_string(offset_) + " bytes were ever written, and this begins at " +
                             std::to_string(*typing.offset) + ": write those between first; nothing was written")
        .with("at", offset_);
  }
  return static_cast<std::size_t>(std::min<std::int64_t>(static_cast<std::int64_t>(size), offset_ - *typing.offset));
}

Task<Typed> SessionInput::write(std::shared_ptr<Incarnation> in, Typing typing, Cancel& cancel) {
  std::string data = std::move(typing.data);
  const Wiper wiper(typing.secret ? &data : nullptr);
  const std::uint64_t ticket = next_ticket_++;
  Waiter waiter(executor_);
  waiter.subscribe(turn_changed_);
  while (turn_ != ticket) {
    co_await waiter.until(never);
  }
  const Turn turn(*this);
  Typed typed;
  if (in->input() == nullptr && typing.offset && typing.eof && data.empty()) {
    co_return typed;  // closed by an earlier try
  }
  if (in->input() == nullptr) {
    refuse_closed(Executed::no);
  }
  const std::optional<termios> modes = in->tty() ? terminal_modes(in->input()->fd()) : std::nullopt;
  const bool canonical = modes && (modes->c_lflag & ICANON) != 0;
  if (typing.submit) {
    data += in->tty() ? '\r' : '\n';
  }
  typed.accepted = taken_before(typing, data.size());
  std::string_view rest = std::string_view(data).substr(typed.accepted);
  const std::size_t key = modes ? last_signal_key(rest, *modes) : std::string::npos;
  const bool begins_anew = key != std::string::npos;
  const std::size_t unfinished_before = canonical && !begins_anew ? unfinished_line_ : 0;
  std::size_t unfinished = unfinished_before;
  if (longest_line(rest.substr(begins_anew ? key + 1 : 0), unfinished) > max_line_bytes && canonical) {
    throw refusal("lineTooLong", "a line of more than " + std::to_string(max_line_bytes) +
                                     " bytes would be cut by the terminal; nothing was written");
  }
  if (typing.eof && modes && !canonical) {
    throw refusal("noEof", "the program reads keys, not lines: its terminal has no end of file");
  }
  if (typing.eof && canonical) {  // the first one only pushes an unfinished line
    data.append(unfinished != 0 ? 2 : 1, static_cast<char>(modes->c_cc[VEOF]));
    typed.accepted = taken_before(typing, data.size());
    rest = std::string_view(data).substr(typed.accepted);
    unfinished = 0;
  }
  typed.interrupts =
      modes && (modes->c_lflag & ISIG) != 0 && rest.find(static_cast<char>(modes->c_cc[VINTR])) != std::string::npos;
  const std::string_view to_write = rest;
  std::size_t written = 0;
  if (begins_anew) {
    written = co_await write_all_of(in, rest.substr(0, key), cancel);
    if (!cancel) {
      written = key;  // what had no room is thrown away behind it all the same
    }
    rest.remove_prefix(cancel ? rest.size() : key);
    discard_unread(*in);
  }
  written += co_await write_all_of(in, rest, cancel);
  offset_ += static_cast<std::int64_t>(written);
  typed.accepted += written;
  if (written < to_write.size()) {  // the rest may be written yet
    unfinished = unfinished_before;
    longest_line(to_write.substr(0, written), unfinished);
  }
  unfinished_line_ = canonical ? unfinished : 0;
  if (typing.eof && !in->tty() && typed.accepted == data.size()) {
    in->close_input();
  }
  co_return typed;
}

Task<std::size_t> SessionInput::write_all_of(std::shared_ptr<Incarnation> in, std::string_view data, Cancel& cancel) {
  const auto room = std::make_shared<Event>();
  Waiter waiter(executor_);
  waiter.subscribe(cancel.changed());
  waiter.subscribe(*room);
  std::size_t done = 0;
  TimePoint deadline = Clock::now() + patience;
  while (done < data.size() && !cancel) {
    AsyncFd* const input = in->input();
    if (input == nullptr && done > 0) {
      break;
    }
    if (input == nullptr) {
      refuse_closed(Executed::no);
    }
    const ssize_t n = ::write(input->fd(), data.data() + done, data.size() - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
      deadline = Clock::now() + patience;
    } else if (errno == EAGAIN) {
      if (Clock::now() >= deadline) {
        break;
      }
      spawn(executor_, announce_room(in, room));
      co_await waiter.until(deadline);
    } else if (errno == EPIPE || errno == EIO) {
      refuse_closed(done == 0 ? Executed::no : Executed::yes);
    } else if (errno != EINTR) {
      throw os_error("cannot write to the session", errno);
    }
  }
  co_return done;
}

Task<> SessionInput::announce_room(std::shared_ptr<Incarnation> in, std::shared_ptr<Event> room) {
  AsyncFd* const input = in->input();
  if (input != nullptr) {
    co_await input->writable();
    room->notify();
  }
}

}  // namespace rex::shell
