// The words that make bash report: 4.0 and later (measured: 5.2).
#include "shell/dialect_text.h"

namespace rex::shell {
namespace {

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

  [[nodiscard]] std::vector<std::string> startup_files(
      Startup startup, const std::function<std::string(const std::string&)>& variable) const override {
    const std::string home = variable("HOME") + "/";
    switch (startup) {
      case Startup::clean: return {};
      case Startup::interactive: return {"/etc/bash.bashrc", "/etc/bashrc", home + ".bashrc"};
      case Startup::login:
        return {"/etc/profile",     home + ".bash_profile", home + ".bash_login", home + ".profile",
                "/etc/bash.bashrc", "/etc/bashrc",          home + ".bashrc"};
    }
    return {};
  }

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

  [[nodiscard]] std::string restore_prefix(const ChannelPaths& /*paths*/, std::string_view flags,
                                           std::string_view traps, int last_status) const override {
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

  // "bash: PATH: line 2: syntax error near …"
  [[nodiscard]] std::optional<SyntaxError> find_syntax_error(std::string_view output, std::string_view command_path,
                                                             int /*status*/, std::string_view /*text*/) const override {
    return find_complaint(output, command_path);
  }
};

}  // namespace

const Dialect& bash_dialect() {
  static const Bash bash;
  return bash;
}

}  // namespace rex::shell
