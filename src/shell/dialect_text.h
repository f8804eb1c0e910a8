// What the dialects share: looking at texts of a shell without parsing them. Pure; may err only towards care.
#pragma once

#include <charconv>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "shell/dialect.h"

namespace rex::shell {

/// ` <INPUT` or ` <INPUT >OUTPUT 2>&1`.
std::string redirections(const Redirections& to);

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words);

/// Whether one of `words` stands in `text` between characters that no word of a shell is made of.
bool has_word(std::string_view text, std::initializer_list<std::string_view> words);

/// Whether there may be an `&` that puts a command into the background; those of &&, >& and &> are none.
bool starts_a_job(std::string_view text);

/// Whether a line put behind `text` would be read as a command of its own, so far as that can be told without a parser:
/// there is no here-document that may have no end, and the last line asks for no continuation.
bool takes_a_line_behind(std::string_view text);

/// The first syntax error in `output` that names `command_path` and a line, as bash, dash, busybox and zsh write it.
std::optional<SyntaxError> find_complaint(std::string_view output, std::string_view command_path);

/// The text up to `separator`, which is taken away with it.
std::string_view take(std::string_view& text, char separator);

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// The dialects. Each lives as long as the program.
const Dialect& bash_dialect();
const Dialect& posix_dialect();
const Dialect& busybox_dialect();
const Dialect& zsh_dialect();
const Dialect& fish_dialect();

}  // namespace rex::shell
