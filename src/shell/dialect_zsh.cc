// The words that make zsh report (measured: 5.9).
#include <string>

#include "shell/dialect_text.h"

namespace rex::shell {
namespace {

// How the words are chosen (each was broken once; tests/e2e/test_shells.py knows how):
// - The first line of a command is there to be lost: zsh remembers an interrupt that came while it was idle, and throws
//   away the line it reads next. The second says B, for "not begun", then. The first also tells /dev/null which
//   background jobs have ended (`jobs` says so on the terminal itself unless NOTIFY is set, and NOTIFY set would say it
//   in the midst of a command).
// - Where the last line is the one that reports, the command was cut short; a loop of builtins then leaves `$?` at 0.
// - XTRACE comes back at the end of a function, so -x and -v are put aside outside of one. `typeset`, `[[` and `{` are
//   words that no function can take the place of; a function called `builtin` is beyond us, and costs the session its
//   shell (Session::watch_lines).
// - `.` overwrites `pipestatus`: a command with a pipe has __rex_e behind it, where a line can be put there.
// - What zsh would run around our lines is taken away with every report: precmd, preexec, periodic, zshaddhistory.
//   DEBUG and ZERR traps are put aside and given back on the command's first line; DEBUG fires once more, for our
//   report.
class Zsh final : public Dialect {
 public:
  [[nodiscard]] std::vector<std::string> arguments(Startup startup) const override {
    switch (startup) {
      case Startup::clean: return {"-f", "-i", "+Z"};
      case Startup::interactive: return {"-i", "+Z"};
      case Startup::login: return {"-l", "-i", "+Z"};
    }
    return {};
  }

  [[nodiscard]] std::vector<std::string> startup_files(
      Startup startup, const std::function<std::string(const std::string&)>& variable) const override {
    std::vector<std::string> names{"zshenv"};
    if (startup == Startup::login) {
      names.emplace_back("zprofile");
    }
    if (startup != Startup::clean) {
      names.emplace_back("zshrc");
    }
    if (startup == Startup::login) {
      names.emplace_back("zlogin");
    }
    const std::string zdotdir = variable("ZDOTDIR");
    const std::string own = (zdotdir.empty() ? variable("HOME") : zdotdir) + "/.";
    std::vector<std::string> files;
    for (const std::string& name : names) {
      files.insert(files.end(), {"/etc/" + name, "/etc/zsh/" + name});
      if (startup != Startup::clean) {
        files.push_back(own + name);
      }
    }
    return files;
  }

  [[nodiscard]] std::string prologue(const ChannelPaths& paths) const override {
    return R"(unsetopt promptcr promptsp notify
unset HISTFILE; typeset +x PS1 PS2; HISTSIZE=0 PS1= PS2= RPS1= RPS2= __rex_n= __rex_ps= __rex_f= __rex_q=
__rex_e() {
  __rex_ps="$? ${(j: :)pipestatus[@]}"
  builtin return ${__rex_ps%% *}
}
__rex_jobs() { builtin setopt notify; builtin jobs; builtin unsetopt notify; }
__rex_j() {
  __rex_q=$? __rex_b=$1 __rex_n=
  __rex_jobs
  __rex_s $__rex_q
}
__rex_s() {
  [[ -o errexit ]] && builtin return 0
  builtin return $1
}
__rex_l() {
  builtin printf 'B\0' >|)" +
           paths.report + R"(
  __rex_n=$1
}
__rex_r() {
  case $2 in "$__rex_n") builtin return $1;; esac
  case $1$3 in 0again) 1=130;; esac
  case $__rex_f in *x*) __rex_f=x;; *) __rex_f=;; esac
  builtin trap >|)" +
           paths.traps + R"(
  builtin trap - DEBUG ZERR
  builtin printf '%s %s|%s|%s|%s\0' "$2" "$1" "${__rex_ps#* }" "$__rex_f" "$PWD" >|)" +
           paths.report + R"(
  __rex_jobs
  builtin unset -f precmd preexec periodic zshaddhistory || :
  precmd_functions=() preexec_functions=() periodic_functions=() zshaddhistory_functions=()
  __rex_n=$2 __rex_ps= PS1= PS2= RPS1= RPS2=
  builtin return $1
}
)";
  }

  [[nodiscard]] std::vector<std::string> start_lines(const ChannelPaths& paths) const override {
    return {" \\builtin . " + paths.command + " </dev/null >/dev/null 2>&1\n", " " + report(0, "first") + "\n"};
  }

  [[nodiscard]] std::string restore_prefix(const ChannelPaths& paths, std::string_view flags, std::string_view traps,
                                           int /*last_status*/) const override {
    std::string prefix;
    if (contains_any(traps, {"DEBUG", "ZERR"})) {
      prefix += "{ \\builtin . " + paths.traps + "; } >/dev/null 2>&1; ";
    }
    if (flags.find('x') != std::string_view::npos) {
      prefix += "{ \\builtin set -x; } 2>/dev/null; ";
    }
    return prefix;
  }

  [[nodiscard]] std::string epilogue(std::string_view text) const override {
    return text.find('|') != std::string_view::npos && takes_a_line_behind(text) ? "{ \\__rex_e; } 2>/dev/null" : "";
  }

  [[nodiscard]] std::vector<std::string> run_lines(const ChannelPaths& paths, const Run& run) const override {
    const std::string number = std::to_string(run.number);
    return {" { \\__rex_j " + number + "; } >/dev/null 2>&1\n",
            " if [[ $__rex_b == " + number + " ]]; then " +
                (run.last_status == 0 ? "" : "\\__rex_s " + std::to_string(run.last_status) + "; ") + "\\builtin . " +
                paths.command + redirections(run.to) + "; " + report(run.number, "first") + "; else { \\__rex_l " +
                number + "; } >/dev/null 2>&1; fi\n",
            " " + report(run.number, "again") + "\n"};
  }

  // There is one gear: what care costs is a few microseconds here.
  [[nodiscard]] bool calls_for_care(std::string_view /*text*/) const override { return true; }

  [[nodiscard]] std::string report_line(std::uint64_t number) const override {
    return " " + report(number, "again") + "\n";
  }

  // "PATH:2: parse error near …" and "PATH:2: unmatched \""; `.` then has the status 126.
  [[nodiscard]] std::optional<SyntaxError> find_syntax_error(std::string_view output, std::string_view command_path,
                                                             int status, std::string_view /*text*/) const override {
    return status == 126 ? find_complaint(output, command_path) : std::nullopt;
  }

 private:
  static std::string report(std::uint64_t number, const char* which) {
    return "{ __rex_q=$? __rex_f=$-; \\builtin set +xv; \\__rex_r $__rex_q " + std::to_string(number) + " " + which +
           "; } >/dev/null 2>&1";
  }
};

}  // namespace

const Dialect& zsh_dialect() {
  static const Zsh zsh;
  return zsh;
}

}  // namespace rex::shell
