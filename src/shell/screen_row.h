// One row of libvterm's screen as text. For screen.cc only; knows cells and nothing of what filled them.
#pragma once

#include <vterm.h>

#include <string>

namespace rex::shell {

std::string row_text(const VTermScreen& screen, int row, int cols);
std::string row_ansi(const VTermScreen& screen, int row, int cols);

}  // namespace rex::shell
