#include "shell/terminal.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace rex::shell {
namespace {

constexpr char escape = 0x1B;

// Less than this is drawn without a thought where to begin.
constexpr Offset near_enough = 4096;

}  // namespace

Terminal::Terminal(Journal& journal, WindowSize size, bool agent)
    : journal_(journal), agent_(agent), scan_(journal.end()), marks_(journal.end(), agent, size) {}

Heard Terminal::took(std::string_view bytes, const termios* modes) {
  const std::vector<TerminalQuery> queries = scan_.feed(bytes, marks_.newest().size.rows);
  note_newlines(bytes, modes);
  Heard heard;
  for (const TerminalQuery& query : queries) {
    heard.answers += modes != nullptr ? answer(query) : "";
  }
  heard.bell = scan_.take_bell();
  heard.title = scan_.take_title_change();
  follow();
  return heard;
}

/// An agent's terminal has no output processing, and programs that count on it write LF for a new line. A program that
/// wants LF as it is says so: ONLCR off (curses, vim), or all of its raw mode (ssh, tmux, node), which on such a
/// terminal shows in the modes of input only; of those, one that takes the other screen means each LF as it is.
bool Terminal::leaves_newlines_bare(const termios* modes) const {
  if (!agent_ || modes == nullptr) {
    return agent_;
  }
  const bool raw = (modes->c_lflag & (ICANON | ECHO | ISIG)) == 0;
  return (modes->c_oflag & OPOST) == 0 && (modes->c_oflag & ONLCR) != 0 && !(raw && scan_.alternate());
}

/// The mode is that of now, the bytes are older: where it changed among them, a program that paints began with its
/// first control sequence, or ended with its last.
void Terminal::note_newlines(std::string_view bytes, const termios* modes) {
  const bool bare = leaves_newlines_bare(modes);
  if (bare != marks_.newest().bare) {
    const std::size_t sequence = bare ? bytes.rfind(escape) : bytes.find(escape);
    marks_.set_bare(journal_.end() - bytes.size() + (sequence == std::string_view::npos ? 0 : sequence), bare);
  }
}

std::string Terminal::answer(const TerminalQuery& query) {
  const WindowSize size = marks_.newest().size;
  CursorPlace cursor;
  if (query.kind == TerminalQuery::Kind::cursor || query.kind == TerminalQuery::Kind::extended_cursor) {
    if (!Screen::possible(size)) {
      return {};
    }
    draw_until(query.end);
    cursor = screen_->cursor();
  }
  return answer_to(query, scan_, size, cursor);
}

bool Terminal::restore() {
  const bool left = scan_.unrestored();
  if (left) {
    marks_.restore(journal_.end(), scan_.restore());
  }
  return left;
}

void Terminal::follow() {
  const bool painting = scan_.alternate() || scan_.unusual();
  if (painting && journal_.end() - std::max(drawn_to_, journal_.oldest()) > kMaxBytes / 2 &&
      Screen::possible(marks_.newest().size)) {
    draw_until(journal_.end());
  }
}

ScreenView Terminal::view(ScreenOptions options) {
  const WindowSize size = marks_.newest().size;
  if (!Screen::possible(size)) {
    throw limit_exceeded("screenCells", std::int64_t{size.rows} * size.cols, Screen::kMaxCells);
  }
  draw_until(journal_.end());
  const bool more = shown_title_ != scan_.title() || shown_alternate_ != screen_->alternate();
  shown_title_ = scan_.title();
  shown_alternate_ = screen_->alternate();
  ScreenView view{};
  view.revision = screen_->revision(more);
  if (options.since && *options.since > view.revision) {
    throw invalid_params("since", "the screen is at revision " + std::to_string(view.revision));
  }
  std::vector<int> rows(static_cast<std::size_t>(size.rows));
  std::iota(rows.begin(), rows.end(), 0);
  if (options.since) {
    rows = screen_->changed_after(*options.since);
  }
  for (const int row : rows) {
    view.lines.push_back(options.ansi ? screen_->ansi(row) : screen_->text(row));
  }
  if (options.since) {
    view.changed = std::move(rows);
  }
  view.size = size;
  view.cursor = screen_->cursor();
  view.cursor_visible = screen_->cursor_visible();
  view.title = shown_title_;
  view.alternate = shown_alternate_;
  view.next = drawn_to_;
  view.complete = complete_;
  return view;
}

void Terminal::draw_until(Offset to) {
  const Start start = choose_start(to);
  if (!screen_ || start.anew || start.at != drawn_to_) {
    begin_at(start);
  }
  std::string text;
  const auto draw = [this, &text](std::string_view bytes) {
    newlines_->take(bytes, text);
    screen_->feed(text);
    text.clear();
    return true;
  };
  while (true) {
    const TerminalMark* const mark = marks_.after(sized_by_);
    const Offset stop = mark != nullptr ? std::min(mark->at, to) : to;
    if (journal_.visit(drawn_to_, stop, draw) < stop) {  // the journal has just lost its file
      complete_ = false;
      newlines_->skip_to(stop);
    }
    drawn_to_ = std::max(drawn_to_, stop);
    draw({});  // what is told behind the last byte
    if (mark == nullptr || mark->at > to) {
      return;
    }
    sized_by_ = mark->serial;
    if (Screen::possible(mark->size) && mark->size != screen_->size()) {
      screen_->resize(mark->size);
    }
  }
}

/// Makes the screen, or lets the one there is go on, so that the next byte drawn is that of `start`, on nothing.
void Terminal::begin_at(const Start& start) {
  const TerminalMark& mark = start.anew ? marks_.newest() : marks_.at(start.at);
  const WindowSize size = Screen::possible(mark.size) ? mark.size : marks_.newest().size;
  if (!screen_) {
    screen_ = std::make_unique<Screen>(size);
    newlines_.emplace(marks_, start.at);
  } else if (size != screen_->size()) {
    screen_->resize(size);
  }
  newlines_->skip_to(start.at);
  sized_by_ = mark.serial;
  drawn_to_ = start.at;
  // Of what was left out, modes must have their effect.
  if (scan_.alternate_changed() <= start.at && scan_.alternate() != screen_->alternate()) {
    screen_->feed(scan_.alternate() ? "\033[?1049h" : "\033[?1049l");
  }
  if (!scan_.unusual()) {
    screen_->feed(scan_.is_set(25) ? "\033[!p" : "\033[!p\033[?25l");
  }
  screen_->wipe();
}

/// Where drawing up to `to` has to begin; keeps account of `complete_`.
Terminal::Start Terminal::choose_start(Offset to) {
  const bool resized = screen_ && marks_.newest().size != screen_->size();
  const Offset held = std::max(drawn_to_, journal_.oldest());
  if (screen_ && !resized && complete_ && held == drawn_to_ && to - held <= near_enough) {
    return {held, false};
  }
  const std::optional<Offset> whole = exact_start(to);
  if (whole && (*whole > drawn_to_ || !screen_ || resized || !complete_)) {
    complete_ = true;
    return {*whole, true};
  }
  const Offset near = std::max(held, to - std::min<Offset>(to, kMaxBytes));
  const WindowSize size = marks_.newest().size;
  const auto affordable = static_cast<std::size_t>(kMaxMovedCells / (std::int64_t{size.rows} * size.cols));
  Offset start = last_lines(near, to, affordable + static_cast<std::size_t>(size.rows)).value_or(near);
  if (start == near && near > held) {  // not in the middle of a line, which may be that of a sequence or a character
    start = first_line(near, to);
  }
  complete_ = complete_ && start <= drawn_to_;
  return {start, false};
}

/// From where drawing on nothing, all in the size of now, gives what a terminal shows: the last lines, or all since the
/// screen was empty, where neither was painted on. Wrapped lines are wrapped anew by it.
std::optional<Offset> Terminal::exact_start(Offset to) {
  if (scan_.unusual()) {
    return std::nullopt;
  }
  const Offset near = std::max(journal_.oldest(), to - std::min<Offset>(to, kMaxBytes));
  const std::optional<Offset> lines = last_lines(near, to, static_cast<std::size_t>(marks_.newest().size.rows));
  if (lines && scan_.drawn() <= *lines) {
    return lines;
  }
  const bool only_text = scan_.blank() == scan_.drawn() && scan_.blank() <= to;
  return only_text && scan_.blank() >= near ? std::optional(scan_.blank()) : std::nullopt;
}

/// Where the first whole line behind `from` begins; `from` itself when there is none before `to`.
Offset Terminal::first_line(Offset from, Offset to) {
  Offset line = from;
  journal_.visit(from, to, [&, at = from](std::string_view bytes) mutable {
    const std::size_t end = bytes.find('\n');
    line = end == std::string_view::npos ? line : at + end + 1;
    at += bytes.size();
    return end == std::string_view::npos;
  });
  return line;
}

/// Where the last `count` lines before `to` begin; nothing when there are fewer behind `from`.
std::optional<Offset> Terminal::last_lines(Offset from, Offset to, std::size_t count) {
  std::string bytes(to - from, '\0');
  bytes.resize(journal_.read(from, bytes.data(), bytes.size()));
  std::size_t at = bytes.size();
  for (; count != 0; --count) {
    at = at == 0 ? std::string::npos : bytes.rfind('\n', at - 1);
    if (at == std::string::npos) {
      return std::nullopt;
    }
  }
  return from + at + 1;
}

}  // namespace rex::shell
