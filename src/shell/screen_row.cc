#include "shell/screen_row.h"

#include <cstdint>
#include <utility>

namespace rex::shell {
namespace {

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
            static_cast<char>(0x80 | (c & 0x3F))};
  } else {
    out += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
            static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
  }
}

/// The cell is written to `out`: blank when nothing was drawn in it, nothing when it belongs to the wide one before.
void append_cell(std::string& out, const VTermScreenCell& cell) {
  constexpr auto right_half = static_cast<std::uint32_t>(-1);
  if (cell.chars[0] == right_half) {
    return;
  }
  if (cell.chars[0] == 0) {
    out += ' ';
    return;
  }
  for (const std::uint32_t character : cell.chars) {
    if (character == 0) {
      return;
    }
    const bool possible = character < 0xD800 || (character > 0xDFFF && character < 0x110000);
    append_utf8(out, possible ? character : 0xFFFD);
  }
}

VTermScreenCell cell_at(const VTermScreen& screen, int row, int col) {
  VTermScreenCell cell{};
  vterm_screen_get_cell(&screen, {row, col}, &cell);
  return cell;
}

/// The parameters that select `color`, behind a `;`; none for the default. `base`: 30 for text, 40 for what is behind.
std::string color_parameters(const VTermColor& color, int base) {
  if ((color.type & VTERM_COLOR_DEFAULT_MASK) != 0) {
    return {};
  }
  if (VTERM_COLOR_IS_INDEXED(&color)) {
    const int index = color.indexed.idx;
    return index < 8    ? ";" + std::to_string(base + index)
           : index < 16 ? ";" + std::to_string(base + 60 + index - 8)
                        : ";" + std::to_string(base + 8) + ";5;" + std::to_string(index);
  }
  return ";" + std::to_string(base + 8) + ";2;" + std::to_string(color.rgb.red) + ";" +
         std::to_string(color.rgb.green) + ";" + std::to_string(color.rgb.blue);
}

/// The parameters that make a plain cell look like `cell`.
std::string parameters_of(const VTermScreenCell& cell) {
  const VTermScreenCellAttrs& has = cell.attrs;
  std::string parameters;
  parameters += has.bold ? ";1" : "";
  parameters += has.italic ? ";3" : "";
  parameters += has.underline == VTERM_UNDERLINE_OFF ? "" : has.underline == VTERM_UNDERLINE_DOUBLE ? ";21" : ";4";
  parameters += has.blink ? ";5" : "";
  parameters += has.reverse ? ";7" : "";
  parameters += has.conceal ? ";8" : "";
  parameters += has.strike ? ";9" : "";
  return parameters + color_parameters(cell.fg, 30) + color_parameters(cell.bg, 40);
}

bool shows_without_text(const VTermScreenCell& cell) {
  return cell.attrs.reverse || cell.attrs.underline != VTERM_UNDERLINE_OFF || cell.attrs.strike ||
         (cell.bg.type & VTERM_COLOR_DEFAULT_MASK) == 0;
}

}  // namespace

std::string row_text(const VTermScreen& screen, int row, int cols) {
  std::string text;
  for (int col = 0; col < cols; ++col) {
    append_cell(text, cell_at(screen, row, col));
  }
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

std::string row_ansi(const VTermScreen& screen, int row, int cols) {
  std::string text;
  std::string in_force;
  std::size_t seen = 0;  // of `text`: what is behind are blanks nobody sees
  bool open = false;     // an attribute is in force there
  for (int col = 0; col < cols; ++col) {
    const VTermScreenCell cell = cell_at(screen, row, col);
    std::string wanted = parameters_of(cell);
    if (wanted != in_force) {
      text += "\033[0" + wanted + "m";
      in_force = std::move(wanted);
    }
    if (cell.width == 2 && col + 1 == cols) {  // cut in half
      text += ' ';
      continue;
    }
    append_cell(text, cell);
    if (shows_without_text(cell) || (cell.chars[0] != 0 && cell.chars[0] != ' ')) {
      seen = text.size();
      open = !in_force.empty();
    }
  }
  text.resize(seen);
  return text + (open ? "\033[0m" : "");
}

}  // namespace rex::shell
