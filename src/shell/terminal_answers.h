// What we say to a program that asks its terminal, when no person's terminal is there to answer. Must not know
// sessions, nor how a question was found.
#pragma once

#include <string>

#include "shell/pty.h"
#include "shell/terminal_scan.h"

namespace rex::shell {

/// Where the cursor stands, from 0.
struct CursorPlace {
  int row = 0;
  int col = 0;
};

/// What to type for `query`. An answer is made of constants and numbers of ours; no text that a program chose is ever
/// in one, since whatever reads the terminal next takes an answer for something typed (titles, DECRQSS, OSC 52 and the
/// checksum of the screen have been used for that). What is not known to be harmless is not answered, which a program
/// meets on many terminals.
std::string answer_to(const TerminalQuery& query, const TerminalScan& terminal, WindowSize size, CursorPlace cursor);

}  // namespace rex::shell
