#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/fd.h"

namespace rex::cli {
namespace {

// ESC [ ? and a few digits.
constexpr std::size_t max_held = 16;
constexpr std::size_t max_line = 4096;

// What makes a terminal unpleasant to come back to: cursor keys, no cursor, mouse reports, another screen, marked
// pastes.
constexpr int undone[] = {1, 25, 47, 1000, 1002, 1003, 1004, 1006, 1015, 1047, 1049, 2004};
constexpr int cursor_visible = 25;  // the one that is on at first

constexpr char interrupt_key = '\x03';
constexpr char kill_key = '\x15';
constexpr char escape_key = '\x1b';

bool is_undone(int mode) {
  for (const int each : undone) {
    if (each == mode) {
      return true;
    }
  }
  return false;
}

void erase_character(std::string& text) {
  while (!text.empty() && (text.back() & '\xc0') == '\x80') {
    text.pop_back();
  }
  if (!text.empty()) {
    text.pop_back();
  }
}

}  // namespace

RawTerminal::RawTerminal() {
  if (::tcgetattr(STDIN_FILENO, &before_) != 0) {
    throw os_error("standard input is no terminal", errno);
  }
  termios raw = before_;
  ::cfmakeraw(&raw);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

RawTerminal::~RawTerminal() { restore(); }

void RawTerminal::restore() {
  if (std::exchange(restored_, true)) {
    return;
  }
  std::string undo;
  for (const int mode : switched_) {
    undo += "\x1b[?" + std::to_string(mode) + (mode == cursor_visible ? "h" : "l");
  }
  if (escapes_) {
    undo += "\x1b[m\x1b>";
  }
  try {
    write_all(STDOUT_FILENO, undo, "");
  } catch (const Error&) {  // the terminal is gone, and with it whatever was wrong with it
  }
  // The modes last: they must not act on what is still on its way.
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

void RawTerminal::show(std::string_view bytes) {
  if (!bytes.empty() && !restored_) {
    note_modes(bytes);
    last_ = bytes.back();
    write_all(STDOUT_FILENO, bytes, "cannot write to the terminal");
  }
}

void RawTerminal::notice(std::string_view text) {
  show((at_line_start() ? "[rex-rpc: " : "\r\n[rex-rpc: ") + std::string(text) + "]\r\n");
}

void RawTerminal::note_modes(std::string_view bytes) {
  const std::string all = std::exchange(held_, {}) + std::string(bytes);
  for (std::size_t at = all.find('\x1b'); at != std::string::npos; at = all.find('\x1b', at + 1)) {
    escapes_ = true;
    const std::size_t end = all.find_first_not_of("[?0123456789;", at + 1);
    if (end == std::string::npos) {
      held_ = all.size() - at < max_held ? all.substr(at) : "";
      return;
    }
    std::size_t digit = at + 3;
    while (all.compare(at, 3, "\x1b[?") == 0 && digit < end) {
      int mode = 0;
      std::from_chars(all.data() + digit, all.data() + end, mode);
      const bool on = all[end] == 'h';
      if (is_undone(mode) && (on || all[end] == 'l')) {
        on != (mode == cursor_visible) ? (void)switched_.insert(mode) : (void)switched_.erase(mode);
      }
      digit = std::min(all.find(';', digit), end) + 1;
    }
  }
}

RawTerminal::Size RawTerminal::size() {
  winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    return {24, 80};
  }
  return {size.ws_row, size.ws_col};
}

std::vector<TypedKeys::Part> TypedKeys::feed(std::string_view bytes) {
  std::vector<Part> parts(1);
  const auto command = [&parts](Command what) {
    parts.back().command = what;
    parts.emplace_back();
  };
  for (const char c : bytes) {
    const Place place = std::exchange(place_, c == '\r' || c == '\n' ? Place::line_start : Place::line);
    if (place == Place::line_start && c == '~') {
      place_ = Place::tilde;
    } else if (place != Place::tilde) {
      parts.back().text += c;
    } else {
      place_ = Place::line_start;
      switch (c) {
        case '.': command(Command::detach); break;
        case 't': command(Command::type); break;
        case 'T': command(Command::take_over); break;
        case 'w': command(Command::watch); break;
        case '?': command(Command::help); break;
        case '~':
          place_ = Place::line;
          parts.back().text += c;
          break;
        default: place_ = c == '\r' || c == '\n' ? Place::line_start : Place::line; parts.back().text += {'~', c};
      }
    }
  }
  return parts;
}

TypedLine::Fed TypedLine::feed(std::string_view bytes) {
  Fed fed;
  for (const char c : bytes) {
    if (escape_ != Escape::none) {
      const bool opens = escape_ == Escape::begun && (c == '[' || c == 'O');
      const bool goes_on = escape_ == Escape::open && c >= ' ' && c < '@';
      escape_ = opens || goes_on ? Escape::open : Escape::none;
    } else if (c == '\r' || c == '\n') {
      fed.echo += "\r\n";
      fed.lines.push_back(std::exchange(text_, {}));
    } else if (c == '\x7f' || c == '\b') {
      fed.echo += text_.empty() ? "" : "\b \b";
      erase_character(text_);
    } else if (c == kill_key) {
      while (!text_.empty()) {
        erase_character(text_);
        fed.echo += "\b \b";
      }
    } else if (c == interrupt_key) {
      text_.clear();
      fed.echo += "^C\r\n";
      fed.was_left = true;
    } else if (c == escape_key) {
      escape_ = Escape::begun;
    } else if ((c < 0 || c >= 0x20 || c == '\t') && text_.size() < max_line) {
      text_ += c;
      fed.echo += c;
    }
  }
  return fed;
}

}  // namespace rex::cli
