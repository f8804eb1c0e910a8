// The words that make dash and busybox ash report, and whatever else is called sh (measured: dash 0.5.12,
// busybox 1.35).
#include <utility>

#include "shell/dialect_text.h"

namespace rex::shell {
namespace {

// dash and busybox ash read up to 8 KiB ahead and drop it on SIGINT: one packet a line.
// They keep `$?` through `.` by the report's own return value. `.` would print which background jobs have ended:
// __rex_j tells /dev/null before.
class PosixShell final : public Dialect {
 public:
  /// `applet`: what comes first among the arguments of a program that is several.
  explicit PosixShell(std::vector<std::string> applet) : applet_(std::move(applet)) {}

  [[nodiscard]] std::vector<std::string> arguments(Startup startup) const override {
    std::vector<std::string> arguments = applet_;
    if (startup == Startup::login) {
      arguments.emplace_back("-l");
    }
    arguments.emplace_back("-i");
    return arguments;
  }

  [[nodiscard]] Feed feed() const override { return Feed::packets; }

  [[nodiscard]] std::vector<std::string> startup_files(
      Startup startup, const std::function<std::string(const std::string&)>& variable) const override {
    std::vector<std::string> files;
    if (startup == Startup::login) {
      files = {"/etc/profile", variable("HOME") + "/.profile"};
    }
    if (startup != Startup::clean && !variable("ENV").empty()) {
      files.push_back(variable("ENV"));
    }
    return files;
  }

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

  [[nodiscard]] std::string restore_prefix(const ChannelPaths& /*paths*/, std::string_view flags,
                                           std::string_view /*traps*/, int /*last_status*/) const override {
    return flags.find('x') == std::string_view::npos ? "" : "{ set -x; } 2>/dev/null; ";
  }

  [[nodiscard]] std::vector<std::string> run_lines(const ChannelPaths& paths, const Run& run) const override {
    return {std::string(run.careful ? "{ \\__rex_j; } >/dev/null 2>&1; " : "") + "\\. " + paths.command +
                redirections(run.to) + "; " + report_line(run.number),
            report_line(run.number)};
  }

  [[nodiscard]] bool calls_for_care(std::string_view text) const override { return starts_a_job(text); }

  // dash: "dash: 2: PATH: Syntax error: …"; busybox: "ash: PATH: line 2: syntax error: …" and "… unexpected …".
  [[nodiscard]] std::optional<SyntaxError> find_syntax_error(std::string_view output, std::string_view command_path,
                                                             int /*status*/, std::string_view /*text*/) const override {
    return find_complaint(output, command_path);
  }

 private:
  std::vector<std::string> applet_;
};

}  // namespace

const Dialect& posix_dialect() {
  static const PosixShell shell({});
  return shell;
}

const Dialect& busybox_dialect() {
  static const PosixShell shell({"sh"});
  return shell;
}

}  // namespace rex::shell
