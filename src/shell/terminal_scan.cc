#include "shell/terminal_scan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/encoding.h"

namespace rex::shell {
namespace {

constexpr char kBell = 0x07;
constexpr unsigned keypad_mode = 66;

// Modes we keep: those with an effect on keys, on the screen, or on what a mouse or a paste sends. A program asks for
// hundreds of others, which a bounded map has no room for.
constexpr std::array<unsigned, 20> kept_modes = {1,    6,    7,    12,   25,   45,   47,   66,   1000, 1002,
                                                 1003, 1004, 1005, 1006, 1015, 1047, 1048, 1049, 2004, 2026};
constexpr std::array<unsigned, 2> on_at_start = {7, 25};
// Of these a switch may change what the screen shows.
constexpr std::array<unsigned, 8> drawing_modes = {3, 5, 6, 7, 47, 1047, 1048, 1049};

template <std::size_t N>
bool among(const std::array<unsigned, N>& all, unsigned one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// How long the colour (CSI … m) is that `bytes` begin with, or 0. Most sequences of a flood are colours, and they mean
/// nothing here: this is eight times faster than reading them.
std::size_t length_of_colour(std::string_view bytes) {
  if (!bytes.starts_with("\033[")) {
    return 0;
  }
  std::size_t at = 2;
  while (at < bytes.size() && ((bytes[at] >= '0' && bytes[at] <= '9') || bytes[at] == ';')) {
    ++at;
  }
  return at < bytes.size() && bytes[at] == 'm' ? at + 1 : 0;
}

/// Sequences within one line of text: colours, erasing and moving in the line, cursor shapes, questions, tabs.
bool stays_in_line(const Escape& csi) {
  return std::string_view("mKCDG`P@XIZagqtuW").find(csi.final) != std::string_view::npos && csi.intermediate == 0 &&
         !(csi.final == 'u' && csi.prefix == 0);
}

/// `text`, valid UTF-8 without C0 codes, without DEL and the C1 codes.
std::string without_controls(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = utf8_sequence(text);
    const bool control = text[0] == 0x7F || (text[0] == '\xC2' && static_cast<unsigned char>(text[1]) < 0xA0);
    out += control ? std::string_view() : text.substr(0, size);
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace

std::vector<TerminalQuery> TerminalScan::feed(std::string_view bytes, int rows) {
  rows_ = rows;
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (!parser_.inside()) {
      const std::size_t found = std::min(bytes.find(static_cast<char>(EscapeParser::kEscape), at), bytes.size());
      text(bytes.substr(at, found - at));
      at = found;
      if (const std::size_t colour = length_of_colour(bytes.substr(at)); colour != 0) {
        at += colour;
      } else if (at < bytes.size()) {
        parser_.open(EscapeParser::kEscape);
        begun_ = next_ + at;
        after_escape_ = true;
        ++at;
      }
      continue;
    }
    const std::size_t inner = after_escape_ ? 0 : parser_.skip(bytes.substr(at));
    if (inner != 0) {
      string_ += bytes.substr(at, std::min(inner, kMaxString - std::min(kMaxString, string_.size())));
      at += inner;
      continue;
    }
    at_ = next_ + at + 1;
    in_sequence(static_cast<unsigned char>(bytes[at]));
    ++at;
  }
  next_ += bytes.size();
  return std::exchange(queries_, {});
}

void TerminalScan::text(std::string_view bytes) { bell_ = bell_ || bytes.find(kBell) != std::string_view::npos; }

void TerminalScan::in_sequence(unsigned char byte) {
  const bool first = std::exchange(after_escape_, byte == EscapeParser::kEscape);
  if (first && std::string_view("]P_^X").find(static_cast<char>(byte)) != std::string_view::npos) {
    string_kind_ = static_cast<char>(byte);
    string_.clear();
  } else if (first && byte == '\\') {
    string_ended(false);
  } else if (first && byte != EscapeParser::kEscape) {
    string_kind_ = 0;
  }
  switch (parser_.step(byte)) {
    case EscapeParser::Step::complete: complete(parser_.sequence()); break;
    case EscapeParser::Step::refused: string_kind_ = 0; break;
    case EscapeParser::Step::eaten: break;
  }
}

void TerminalScan::complete(const Escape& sequence) {
  if (sequence.kind == Escape::Kind::string) {
    string_ended(true);
  } else if (sequence.kind == Escape::Kind::csi) {
    csi(sequence);
  } else if (sequence.intermediate != 0) {  // a character set; ncurses names the graphic one to have lines
    graphics_ = sequence.final == '0' || (graphics_ && sequence.final != 'B');
    draw();
  } else {
    switch (sequence.final) {
      case 'c':
        reset();
        blank_ = at_;
        break;
      case '=': modes_[keypad_mode] = true; break;
      case '>': modes_.erase(keypad_mode); break;
      case 'Z': ask(TerminalQuery::Kind::attributes); break;
      case '\\': break;
      default: draw();
    }
  }
}

void TerminalScan::csi(const Escape& sequence) {
  using Kind = TerminalQuery::Kind;
  const unsigned number = static_cast<unsigned>(sequence.number(0, 0));
  const bool plain = sequence.prefix == 0 && sequence.intermediate == 0;
  const bool dec = sequence.prefix == '?' && sequence.intermediate == 0;
  switch (sequence.final) {
    case 'h':
    case 'l': return set_modes(sequence, sequence.final == 'h');
    case 'r': return plain ? set_region(number, static_cast<unsigned>(sequence.number(1, 0))) : void();
    case 'c':
      ask_if(plain && number == 0, Kind::attributes);
      return ask_if(sequence.prefix == '>' && number == 0, Kind::secondary_attributes);
    case 'n':
      ask_if(plain && number == 5, Kind::status);
      ask_if(plain && number == 6, Kind::cursor);
      return ask_if(dec && number == 6, Kind::extended_cursor);
    case 'H':
    case 'J': return plain ? erase_or_home(sequence) : draw();
    case 'q': return ask_if(sequence.prefix == '>' && number == 0, Kind::version);
    case 't': return ask_if(plain && number == 18, Kind::size);
    case 'p':
      if (sequence.intermediate == '$') {
        ask(sequence.prefix == '?' ? Kind::private_mode : Kind::mode, number);
      } else if (sequence.intermediate == '!') {
        reset();
      }
      return;
    default: return stays_in_line(sequence) ? void() : draw();
  }
}

void TerminalScan::erase_or_home(const Escape& sequence) {
  const bool home = sequence.final == 'H' && sequence.number(0, 1) == 1 && sequence.number(1, 1) == 1;
  const std::size_t part = sequence.number(0, 0);
  if (sequence.final == 'J' && part == 3) {  // what has scrolled out of sight
    return;
  }
  draw();
  if (home) {
    home_ = at_;
    blank_ = cleared_ == begun_ ? at_ : blank_;
  } else if (sequence.final == 'J' && (part == 2 || (part == 0 && home_ == begun_))) {
    cleared_ = at_;
    blank_ = home_ == begun_ ? at_ : blank_;
  }
}

void TerminalScan::set_region(unsigned top, unsigned bottom) {
  region_ = top > 1 || (bottom != 0 && bottom < static_cast<unsigned>(rows_));
  draw();
}

void TerminalScan::set_modes(const Escape& sequence, bool on) {
  for (std::size_t i = 0; i < sequence.count; ++i) {
    const unsigned mode = sequence.parameters[i];
    if (sequence.prefix == 0) {
      insert_ = mode == 4 ? on : insert_;
      draw();
      continue;
    }
    if (sequence.prefix != '?') {
      continue;
    }
    if (among(drawing_modes, mode)) {
      draw();
    }
    if (mode == 47 || mode == 1047 || mode == 1049) {  // one screen behind three numbers
      alternate_changed_ = at_;
      for (const unsigned each : {47U, 1047U, 1049U}) {
        modes_.erase(each);
      }
    }
    if (on == among(on_at_start, mode)) {
      modes_.erase(mode);
    } else if (among(kept_modes, mode)) {
      modes_[mode] = on;
    }
  }
}

bool TerminalScan::keeps(unsigned mode) { return mode != keypad_mode && among(kept_modes, mode); }

bool TerminalScan::is_set(unsigned mode) const {
  const auto known = modes_.find(mode);
  return known != modes_.end() ? known->second : among(on_at_start, mode);
}

bool TerminalScan::unrestored() const {
  return region_ || graphics_ || insert_ ||
         std::any_of(modes_.begin(), modes_.end(), [](const auto& mode) { return mode.first != 12; });
}

std::string TerminalScan::restore() {
  std::string told;
  for (const auto& [mode, on] : modes_) {
    if (mode == keypad_mode) {
      told += "\033>";
    } else if (mode != 6 && mode != 7) {  // those the soft reset knows, and the first would move the cursor
      told += "\033[?" + std::to_string(mode) + (on ? 'l' : 'h');
    }
  }
  told += "\033[!p\033(B\033)B\017\033[?7h";
  at_ = next_;
  reset();
  return told;
}

void TerminalScan::reset() {
  alternate_changed_ = alternate() ? at_ : alternate_changed_;
  modes_.clear();
  region_ = graphics_ = insert_ = false;
  draw();
}

void TerminalScan::ask(TerminalQuery::Kind kind, unsigned number, bool bell) {
  if (queries_.size() < kMaxQueries) {
    queries_.push_back({kind, number, bell, at_});
  }
}

void TerminalScan::string_ended(bool bell) {
  const char kind = std::exchange(string_kind_, '\0');
  if (kind == ']') {
    operating_command(string_, bell);
  } else if (kind == 'P' && string_.starts_with("$q")) {
    ask(TerminalQuery::Kind::setting);
  } else if (kind == 'P' && string_.starts_with("+q")) {
    ask(TerminalQuery::Kind::capability);
  }
}

void TerminalScan::operating_command(std::string_view text, bool bell) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != ';') {
    return;
  }
  const std::string_view value = text.substr(static_cast<std::size_t>(end - text.data()) + 1);
  if (number >= 10 && number <= 12 && value == "?") {
    ask(TerminalQuery::Kind::colour, number, bell);
  } else if (number == 0 || number == 2) {
    std::string title = without_controls(replace_invalid_utf8(value));
    title_changed_ = title_changed_ || title != title_;
    title_ = std::move(title);
  }
}

}  // namespace rex::shell
