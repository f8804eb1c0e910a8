#include "shell/screen.h"

#include <vterm.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "shell/screen_row.h"

namespace rex::shell {
namespace {

// libvterm draws the second half of a wide character beyond a row of one column.
constexpr int least_cols = 2;

void require_possible(WindowSize size) {
  if (!Screen::possible(size)) {
    throw limit_exceeded("screenCells", std::int64_t{size.rows} * size.cols, Screen::kMaxCells);
  }
}

}  // namespace

struct Screen::Library {
  struct Free {
    void operator()(VTerm* one) const { vterm_free(one); }
  };
  std::unique_ptr<VTerm, Free> terminal;
  VTermScreen* screen;
  VTermScreenCallbacks callbacks{};

  static int damage(VTermRect area, void* user) {
    auto& self = *static_cast<Screen*>(user);
    const int end = std::min(area.end_row, static_cast<int>(self.rows_.size()));
    for (int row = std::max(area.start_row, 0); row < end; ++row) {
      self.rows_[static_cast<std::size_t>(row)].touched = true;
    }
    return 1;
  }

  static int property(VTermProp property, VTermValue* value, void* user) {
    auto& self = *static_cast<Screen*>(user);
    if (property == VTERM_PROP_CURSORVISIBLE) {
      self.cursor_visible_ = value->boolean != 0;
    } else if (property == VTERM_PROP_ALTSCREEN) {
      self.alternate_ = value->boolean != 0;
    }
    return 1;
  }
};

Screen::Screen(WindowSize size) : size_(size) {
  require_possible(size);
  begin();
}

Screen::~Screen() = default;

void Screen::begin() {
  library_ = std::make_unique<Library>();
  library_->terminal.reset(vterm_new(size_.rows, std::max(size_.cols, least_cols)));
  VTerm* const terminal = library_->terminal.get();
  vterm_set_utf8(terminal, 1);
  // What it would answer is not said: the bytes may be old, and what is said is decided elsewhere.
  vterm_output_set_callback(terminal, [](const char*, std::size_t, void*) {}, nullptr);
  library_->screen = vterm_obtain_screen(terminal);
  library_->callbacks.damage = Library::damage;
  library_->callbacks.settermprop = Library::property;
  vterm_screen_set_callbacks(library_->screen, &library_->callbacks, this);
  vterm_screen_set_damage_merge(library_->screen, VTERM_DAMAGE_SCREEN);
  vterm_screen_enable_altscreen(library_->screen, 1);
  rows_.assign(static_cast<std::size_t>(size_.rows), Row{});
  resized_ = true;
  vterm_screen_reset(library_->screen, 1);
}

void Screen::feed(std::string_view bytes) {
  std::string drawing;
  input_.take(bytes, size_.cols, drawing);
  vterm_input_write(library_->terminal.get(), drawing.data(), drawing.size());
  vterm_screen_flush_damage(library_->screen);
}

// libvterm's own resizing writes beyond its rows (0.3.3, `vterm_set_size` after hostile bytes, seen by the address
// sanitizer), so a new one takes the place of the old.
void Screen::resize(WindowSize size) {
  require_possible(size);
  const bool alternate = alternate_;
  const bool visible = cursor_visible_;
  const std::string shown = picture(size);
  if (alternate) {
    feed("\033[?1049l");
  }
  const std::string beneath = alternate ? picture(size) : "";
  size_ = size;
  begin();
  if (alternate) {
    feed(beneath + "\033[?1049h");
  }
  feed(shown + (visible ? "" : "\033[?25l"));
}

/// What draws as much of this on an empty screen of `size` as it holds: the row of the cursor is kept.
std::string Screen::picture(WindowSize size) const {
  const CursorPlace at = cursor();
  const int dropped = std::max(0, at.row - (size.rows - 1));
  std::string drawing;
  for (int row = 0; row < std::min(size.rows, size_.rows - dropped); ++row) {
    drawing += "\033[" + std::to_string(row + 1) + "H" +
               row_ansi(*library_->screen, row + dropped, std::min(size.cols, size_.cols));
  }
  return drawing + "\033[" + std::to_string(at.row - dropped + 1) + ";" +
         std::to_string(std::min(at.col, size.cols - 1) + 1) + "H";
}

void Screen::wipe() { feed("\033[0m\033[H\033[2J"); }

CursorPlace Screen::cursor() const {
  VTermPos place{};
  vterm_state_get_cursorpos(vterm_obtain_state(library_->terminal.get()), &place);
  return {place.row, std::min(place.col, size_.cols - 1)};
}

std::string Screen::text(int row) const { return row_text(*library_->screen, row, size_.cols); }

std::string Screen::ansi(int row) const { return row_ansi(*library_->screen, row, size_.cols); }

std::uint64_t Screen::revision(bool more) {
  const CursorPlace now = cursor();
  bool changed = std::exchange(resized_, false) || more || now.row != last_cursor_.row || now.col != last_cursor_.col ||
                 cursor_visible_ != last_visible_;
  last_cursor_ = now;
  last_visible_ = cursor_visible_;
  for (int i = 0; i < size_.rows; ++i) {
    Row& row = rows_[static_cast<std::size_t>(i)];
    if (!std::exchange(row.touched, false)) {
      continue;
    }
    const std::size_t hash = std::hash<std::string>{}(ansi(i));
    if (row.revision == 0 || row.hash != hash) {  // painted again with the same is no change
      row.hash = hash;
      row.revision = revision_ + 1;
      changed = true;
    }
  }
  revision_ += changed ? 1 : 0;
  return revision_;
}

std::vector<int> Screen::changed_after(std::uint64_t revision) const {
  std::vector<int> changed;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].revision > revision) {
      changed.push_back(static_cast<int>(row));
    }
  }
  return changed;
}

}  // namespace rex::shell
