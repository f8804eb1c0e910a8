#include "shell/dialect.h"

#include <algorithm>
#include <charconv>

namespace rex::shell {
namespace {

std::string redirections(const Redirections& to) {
  return " <" + to.input + (to.output ? " >" + *to.output + " 2>&1" : "");
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

/// Whether one of `words` stands in `text` between characters that no word of a shell is made of.
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

/// Whether there may be an `&` that puts a command into the background; those of &&, >& and &> are none.
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

// How the words of bash are chosen (each was broken once; tests/e2e/test_swerex_table.py and
// test_scenarios_d.py know how):
// - `.` overwrites PIPESTATUS; a RETURN trap still sees the command's own, and `$_`. With care it runs __rex_t, which
//   leaves nested `.` alone (the function stack tells), puts -e -x -v aside so that `.` returning non-zero ends no
//   shell and traces nothing of ours, and on failure asks for the ERR trap to be put aside, which `.` would fire again.
// - __rex_s gives the next command its true `$?` and `$_`, as the first of an && list so that neither -e nor ERR acts.
// - Assigning POSIXLY_CORRECT makes `unset` a special builtin that beats functions: a user's function named builtin,
//   printf or unset is harmless. Backslashes beat aliases.
// - The report blanks what bash would print or run before it reads our next line. `jobs` tells /dev/null which
//   background jobs have ended, before and behind a command; bash would else print that into the output.
// - `set -v` lasts for the command that says it: bash would print our lines too. -x, -e and an ERR trap are given back.
// - Redirections are what a report costs most. They only hide what traces, a DEBUG trap or a redefined builtin could
//   print or do for our own words, so a shell that was never told any such thing is spared them.
class Bash final : public Dialect {
 public:
  [[nodiscard]] std::vector<std::string> arguments(Startup startup) const override {
    switch (startup) {
      case Startup::clean: return {"--noediting", "--norc", "--noprofile", "-i"};
      case Startup::interactive: return {"--noediting", "-i"};
      case Startup::login: return {"--noediting", "-l", "-i"};
    }
    return {};
  }

  // Bash reads a pipe in blocks into a buffer that survives an interrupt.
  [[nodiscard]] bool wants_packets() const override { return false; }

  [[nodiscard]] std::string prologue(const ChannelPaths& paths) const override {
    return R"([[ -o history ]] && { set +o history; history -d -1; }; unset HISTFILE PS1 PS2 PROMPT_COMMAND; PS0= PS1= PS2= __rex_n= __rex_o=
__rex_t() {
  ((${#FUNCNAME[@]} == 1)) || return 0
  local IFS=' ' s=$1
  __rex_u=$2
  shift 2
  __rex_ps="$*"
  [[ $- == *[exv]* ]] && __rex_o=$- && \set +exv
  ((!s))
}
__rex_r() {
  [[ $- == *[exv]* ]] && __rex_o=$- && \set +exv
  [[ ${__rex_o-} == *v* ]] && \set +v
  [[ $2 == "$__rex_n" ]] && \return 0
  if [[ -o posix ]]; then
    \unset -f builtin
    \unset -v PROMPT_COMMAND
  else
    POSIXLY_CORRECT=y
    \unset -f builtin
    \unset -v PROMPT_COMMAND POSIXLY_CORRECT
  fi
  local IFS=' '
  __rex_w "$@" || { builtin enable printf && __rex_w "$@" && builtin enable -n printf; }
  builtin jobs
  __rex_n=$2 __rex_ps= PS0= PS1= PS2=
  \return 0
}
__rex_w() { builtin printf '%s %s|%s|%s|%s\0' "$2" "$1" "${__rex_ps-}" "${__rex_o-}" "$PWD" >|)" +
           paths.report + R"(; }
__rex_s() { [[ $__rex_o == *e* ]] && \set -e; __rex_o=; \return $1; }
readonly -f __rex_t __rex_r __rex_w __rex_s
builtin trap '__rex_ps=${PIPESTATUS[*]} __rex_u=$_' RETURN
)";
  }

  [[nodiscard]] std::vector<std::string> start_lines(const ChannelPaths& paths) const override {
    return {"\\builtin . " + paths.command + " </dev/null >/dev/null 2>&1\n", report_line(0)};
  }

  [[nodiscard]] std::string restore_prefix(std::string_view flags, std::string_view traps,
                                           int last_status) const override {
    std::string prefix;
    if (!traps.empty()) {
      prefix += "{ \\builtin " + std::string(traps.substr(0, traps.find_last_not_of('\n') + 1)) + "; } 2>/dev/null; ";
    }
    if (flags.find('x') != std::string_view::npos) {
      prefix += "{ \\set -x; } 2>/dev/null; ";
    }
    if (!prefix.empty()) {
      prefix += "{ \\__rex_s " + std::to_string(last_status) + " \"$__rex_u\" && \\: \"$__rex_u\"; } 2>/dev/null; ";
    }
    return prefix;
  }

  [[nodiscard]] std::vector<std::string> run_lines(const ChannelPaths& paths, const Run& run) const override {
    const std::string number = std::to_string(run.number);
    const std::string source = "\\builtin . " + paths.command + redirections(run.to) + "; ";
    const std::string last = "\\__rex_s " + std::to_string(run.last_status) + " \"$__rex_u\"";
    if (!run.careful) {
      return {(run.last_status == 0 ? "\\: \"$__rex_u\"" : last) + "; " + source + "\\builtin printf '" + number +
                  " %s|%s||%s\\0' \"$?\" \"$__rex_ps\" \"$PWD\" >|" + paths.report + "; __rex_ps= __rex_n=" + number +
                  "\n",
              "[[ $__rex_n == " + number + " || $((__rex_c=$?)) == - ]] || { \\__rex_r \"$__rex_c\" " + number +
                  "; } >/dev/null 2>&1\n"};
    }
    return {
        "{ \\builtin jobs; \\builtin trap '{ \\__rex_t \"$?\" \"$_\" \"${PIPESTATUS[@]}\" || { \\builtin trap -p ERR "
        ">|" +
            paths.traps + "; \\builtin trap - ERR; }; } >/dev/null 2>&1' RETURN; " + last +
            " && \\: \"$__rex_u\"; } >/dev/null 2>&1; " + source + report_line(run.number),
        report_line(run.number)};
  }

  [[nodiscard]] bool calls_for_care(std::string_view text) const override {
    return starts_a_job(text) || contains_any(text, {"()", "IFS", "PS0", "PS1", "PS2", "PROMPT_COMMAND", "__rex"}) ||
           has_word(text, {".", "source", "eval", "set", "trap", "shopt", "enable", "builtin", "function", "readonly",
                           "declare", "typeset", "unset", "alias"});
  }
};

// dash and busybox ash read up to 8 KiB ahead and drop it on SIGINT: one packet a line.
// They keep `$?` through `.` by the report's own return value. `.` would print which background jobs have ended:
// __rex_j tells /dev/null before.
class PosixShell final : public Dialect {
 public:
  [[nodiscard]] std::vector<std::string> arguments(Startup startup) const override {
    return startup == Startup::login ? std::vector<std::string>{"-l", "-i"} : std::vector<std::string>{"-i"};
  }

  [[nodiscard]] bool wants_packets() const override { return true; }

  [[nodiscard]] std::string prologue(const ChannelPaths& paths) const override {
    return R"(unset PS1 PS2; PS1= PS2= __rex_n= __rex_o=
__rex_j() { __rex_q=$?; command jobs; return $__rex_q; }
__rex_r() {
  { __rex_q=$1 __rex_f=$-; case $- in *[xv]*) set +xv; __rex_o=$__rex_f;; esac; } 2>/dev/null
  case $2 in "$__rex_n") return $1;; esac
  \unset -f command
  command printf '%s %s||%s|%s\0' "$2" "$1" "$__rex_o" "$PWD" >|)" +
           paths.report + R"(
  command jobs
  __rex_n=$2 __rex_o= PS1= PS2=
  return $1
}
)";
  }

  [[nodiscard]] std::vector<std::string> start_lines(const ChannelPaths& paths) const override {
    return {"\\. " + paths.command + " </dev/null >/dev/null 2>&1\n", report_line(0)};
  }

  [[nodiscard]] std::string restore_prefix(std::string_view flags, std::string_view /*traps*/,
                                           int /*last_status*/) const override {
    return flags.find('x') == std::string_view::npos ? "" : "{ set -x; } 2>/dev/null; ";
  }

  [[nodiscard]] std::vector<std::string> run_lines(const ChannelPaths& paths, const Run& run) const override {
    return {std::string(run.careful ? "{ \\__rex_j; } >/dev/null 2>&1; " : "") + "\\. " + paths.command +
                redirections(run.to) + "; " + report_line(run.number),
            report_line(run.number)};
  }

  [[nodiscard]] bool calls_for_care(std::string_view text) const override { return starts_a_job(text); }
};

std::string_view take(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view field = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return field;
}

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

// Nothing of it is visible: neither traces nor what a DEBUG trap prints for our own words.
std::string Dialect::report_line(std::uint64_t number) const {
  return "{ \\__rex_r \"$?\" " + std::to_string(number) + "; } >/dev/null 2>&1\n";
}

const Dialect* dialect_for(std::string_view shell) {
  static const Bash bash;
  static const PosixShell posix;
  const std::string_view name = shell.substr(shell.rfind('/') + 1);
  if (name == "bash") {
    return &bash;
  }
  if (name == "sh" || name == "dash" || name == "ash") {
    return &posix;
  }
  return nullptr;
}

std::optional<Record> parse_record(std::string_view text) {
  Record record{};
  if (!parse(take(text, ' '), record.number) || !parse(take(text, '|'), record.status)) {
    return std::nullopt;
  }
  std::string_view pipe_status = take(text, '|');
  while (!pipe_status.empty()) {
    int status = 0;
    if (!parse(take(pipe_status, ' '), status)) {
      return std::nullopt;
    }
    record.pipe_status.push_back(status);
  }
  record.flags = take(text, '|');
  record.cwd = text;
  return record;
}

std::optional<SyntaxError> find_syntax_error(std::string_view output, std::string_view command_path) {
  // bash: "bash: PATH: line 2: syntax error near …", dash: "dash: 2: PATH: Syntax error: …",
  // busybox: "ash: PATH: line 2: syntax error: …" and "ash: PATH: line 1: unexpected …".
  while (!output.empty()) {
    const std::string_view line = take(output, '\n');
    const std::size_t at = line.find(command_path);
    if (at == std::string_view::npos) {
      continue;
    }
    std::string_view rest = line.substr(at + command_path.size());
    SyntaxError error{};
    if (rest.starts_with(": line ")) {
      rest.remove_prefix(7);
      if (!parse(take(rest, ':'), error.line)) {
        continue;
      }
    } else {
      std::string_view before = line.substr(0, at);
      take(before, ' ');
      if (!rest.starts_with(":") || !parse(take(before, ':'), error.line)) {
        continue;
      }
      rest.remove_prefix(1);
    }
    if (rest.starts_with(" ")) {
      rest.remove_prefix(1);
    }
    if (contains_any(rest, {"syntax error", "Syntax error", "unexpected EOF", "unterminated", "Unterminated"})) {
      error.text = rest;
      return error;
    }
  }
  return std::nullopt;
}

}  // namespace rex::shell
