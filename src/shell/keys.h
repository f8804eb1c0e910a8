// Keys by the names that people know from tmux and emacs, and what a terminal sends when they are pressed. A pure
// function; knows no sessions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rex::shell {

/// What the program asked of the terminal's keys.
struct KeyModes {
  bool application_cursor = false;  // DECCKM: arrows, Home and End as ESC O x
  bool application_keypad = false;  // DECKPAM: KP0 to KP9 as ESC O x
};

/// The bytes of one key: a character itself (`a`, `ä`), or a name of `key_names()`, behind any of `C-` `M-` `S-`. As
/// xterm sends them. Throws InvalidParams `member` for an unknown name, naming the known ones, and for a combination
/// that no terminal can tell apart.
std::string key_bytes(std::string_view key, KeyModes modes, std::string_view member);

std::vector<std::string> key_names();

}  // namespace rex::shell
