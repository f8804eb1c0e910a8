#include "shell/dialect.h"

#include <algorithm>

#include "shell/dialect_text.h"

namespace rex::shell {

std::string redirections(const Redirections& to) {
  return " <" + to.input + (to.output ? " >" + *to.output + " 2>&1" : "");
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

bool has_word(std::string_view text, std::initializer_list<std::string_view> words) {
  constexpr std::string_view breaks = " \t\n;&|(){}`\"'\\";
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(breaks);
    if (begin == std::string_view::npos) {
      return false;
    }
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(breaks), text.size());
    if (std::find(words.begin(), words.end(), text.substr(0, end)) != words.end()) {
      return true;
    }
    text.remove_prefix(end);
  }
  return false;
}

bool starts_a_job(std::string_view text) {
  for (std::size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
    const char before = at > 0 ? text[at - 1] : ' ';
    const char after = at + 1 < text.size() ? text[at + 1] : ' ';
    if (before != '&' && before != '>' && before != '<' && after != '&' && after != '>') {
      return true;
    }
  }
  return false;
}

bool takes_a_line_behind(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return last != std::string_view::npos && text[last] != '\\' && text[last] != '|' && text[last] != '&' &&
         text.find("<<") == std::string_view::npos;
}

std::string_view take(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view field = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return field;
}

std::optional<SyntaxError> find_complaint(std::string_view output, std::string_view command_path) {
  while (!output.empty()) {
    const std::string_view line = take(output, '\n');
    const std::size_t at = line.find(command_path);
    if (at == std::string_view::npos) {
      continue;
    }
    std::string_view rest = line.substr(at + command_path.size());
    SyntaxError error{};
    if (rest.starts_with(": line ")) {  // bash, busybox
      rest.remove_prefix(7);
      if (!parse_number(take(rest, ':'), error.line)) {
        continue;
      }
    } else if (rest.starts_with(": ")) {  // dash: the number stands before the path
      std::string_view before = line.substr(0, at);
      take(before, ' ');
      if (!parse_number(take(before, ':'), error.line)) {
        continue;
      }
      rest.remove_prefix(1);
    } else {  // zsh
      take(rest, ':');
      if (!parse_number(take(rest, ':'), error.line)) {
        continue;
      }
    }
    if (rest.starts_with(" ")) {
      rest.remove_prefix(1);
    }
    if (contains_any(rest, {"syntax error", "Syntax error", "unexpected EOF", "unterminated", "Unterminated",
                            "parse error", "unmatched "})) {
      error.text = rest;
      return error;
    }
  }
  return std::nullopt;
}

// Nothing of it is visible: neither traces nor what a DEBUG trap prints for our own words.
std::string Dialect::report_line(std::uint64_t number) const {
  return "{ \\__rex_r \"$?\" " + std::to_string(number) + "; } >/dev/null 2>&1\n";
}

std::string Dialect::source_command(std::string_view path) const {
  std::string quoted = ". '";
  for (const char c : path) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

const Dialect* dialect_for(std::string_view shell, std::string_view real) {
  const auto name_of = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  const std::string_view name = name_of(shell);
  if (name == "bash" || (name == "sh" && name_of(real) == "bash")) {
    return &bash_dialect();
  }
  if (name == "sh" || name == "dash" || name == "ash") {
    return &posix_dialect();
  }
  if (name == "busybox") {
    return &busybox_dialect();
  }
  if (name == "zsh") {
    return &zsh_dialect();
  }
  if (name == "fish") {
    return &fish_dialect();
  }
  return nullptr;
}

std::optional<Record> parse_record(std::string_view text) {
  Record record{};
  if (!parse_number(take(text, ' '), record.number) || !parse_number(take(text, '|'), record.status)) {
    return std::nullopt;
  }
  std::string_view pipe_status = take(text, '|');
  while (!pipe_status.empty()) {
    int status = 0;
    if (!parse_number(take(pipe_status, ' '), status)) {
      return std::nullopt;
    }
    record.pipe_status.push_back(status);
  }
  record.flags = take(text, '|');
  record.cwd = text;
  return record;
}

}  // namespace rex::shell
