// The words that make fish report (measured: 3.6).
#include <algorithm>
#include <string>

#include "shell/dialect_text.h"

namespace rex::shell {
namespace {

// How it is won (each part was broken once; tests/e2e/test_shells.py knows how). fish reads a pipe to its end before it
// runs anything, sources without job control, and gives event handlers none; only what its own line editor executes is
// as a person's. So that editor runs one line of ours: a loop that reads lines from a pipe and evals texts. It never
// comes back to the editor but when an interrupt breaks a loop of builtins. Then
// - fish_prompt says P, for "at the prompt", and reports the command that was broken off; in the bind mode `rex` there
//   is one key, which puts the loop on the command line and executes it, so that nothing typed ahead is ever run;
// - the driver types that key, the loop says L, and the driver takes back what fish has made of the terminal's modes.
// fish's standard output is a pipe of ours that nobody reads for its words: the editor paints there, and titles,
// prompts and handlers print there. Its standard error is the terminal, for its complaints about a command.
// `builtin` is a word that no function can take the place of.
class Fish final : public Dialect {
 public:
  [[nodiscard]] Feed feed() const override { return Feed::loop; }

  [[nodiscard]] std::vector<std::string> arguments(Startup startup) const override {
    switch (startup) {
      case Startup::clean: return {"--no-config", "-i"};
      case Startup::interactive: return {"-i"};
      case Startup::login: return {"-l", "-i"};
    }
    return {};
  }

  [[nodiscard]] std::vector<std::string> private_arguments(const ChannelPaths& paths) const override {
    return {"-C", "source " + paths.command};
  }

  [[nodiscard]] bool status_tells_stopped() const override { return false; }

  // Directories among them stand for the files in them.
  [[nodiscard]] std::vector<std::string> startup_files(
      Startup startup, const std::function<std::string(const std::string&)>& variable) const override {
    if (startup == Startup::clean) {
      return {};
    }
    const std::string config = variable("XDG_CONFIG_HOME");
    const std::string own = (config.empty() ? variable("HOME") + "/.config" : config) + "/fish/";
    return {own + "conf.d/", "/etc/fish/conf.d/", "/usr/share/fish/vendor_conf.d/", "/etc/fish/config.fish",
            own + "config.fish"};
  }

  [[nodiscard]] std::string prologue(const ChannelPaths& paths) const override {
    return R"(builtin printf '\0'
builtin set -g __rex_n
builtin set -g __rex_ps
builtin set -eg PS1 PS2
function __rex_s; builtin return $argv[1]; end
function __rex_e --on-event fish_postexec; builtin set -g __rex_x $status; end
function __rex_p --on-event fish_prompt
  if builtin test -n "$__rex_n"
    builtin test "$__rex_x" = 0; and builtin set -g __rex_x 130
    builtin printf '%s %s|||%s\0' $__rex_n $__rex_x "$PWD" >)" +
           paths.report + R"(
    builtin set -g __rex_n
  end
  builtin set -g fish_bind_mode rex
  builtin printf 'P\0' >)" +
           paths.report + R"(
end
function __rex_k
  builtin set -g fish_bind_mode default
  builtin commandline -r ' )" +
           loop(paths) + R"('
  builtin commandline -f execute
end
for __rex_i in fish_prompt fish_right_prompt fish_mode_prompt fish_title fish_greeting; function $__rex_i; end; end
builtin set -e __rex_i
builtin bind -M rex \x1d __rex_k
)";
  }

  // It is the driver that starts it: by the key.
  [[nodiscard]] std::vector<std::string> start_lines(const ChannelPaths& /*paths*/) const override { return {}; }

  [[nodiscard]] std::string source_command(std::string_view path) const override {
    std::string quoted = "source '";
    for (const char c : path) {
      quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
    return quoted + "'";
  }

  [[nodiscard]] std::string restore_prefix(const ChannelPaths& /*paths*/, std::string_view /*flags*/,
                                           std::string_view /*traps*/, int /*last_status*/) const override {
    return {};
  }

  // `set` leaves the status as it was.
  [[nodiscard]] std::string epilogue(std::string_view text) const override {
    return text.find('|') != std::string_view::npos && takes_a_line_behind(text) ? "builtin set -g __rex_ps $pipestatus"
                                                                                 : "";
  }

  [[nodiscard]] std::vector<std::string> run_lines(const ChannelPaths& paths, const Run& run) const override {
    return {std::to_string(run.number) + " " + std::to_string(run.last_status) + " " + run.to.input + " " +
            run.to.output.value_or(paths.terminal) + "\n"};
  }

  [[nodiscard]] bool calls_for_care(std::string_view /*text*/) const override { return false; }

  // "fish: Missing end to balance this if statement\nif true\n^^": its own line of the text follows, not its number.
  [[nodiscard]] std::optional<SyntaxError> find_syntax_error(std::string_view output, std::string_view /*command_path*/,
                                                             int status, std::string_view text) const override {
    constexpr int status_of_a_text_not_understood = 123;
    constexpr std::string_view mark = "fish: ";
    const std::size_t at = output.starts_with(mark) ? 0 : output.rfind("\nfish: ");
    if (status != status_of_a_text_not_understood || at == std::string_view::npos) {
      return std::nullopt;
    }
    output.remove_prefix(output.find(mark, at) + mark.size());
    SyntaxError error{1, std::string(take(output, '\n')), true};
    const std::string_view blamed = take(output, '\n');
    const std::size_t place = blamed.empty() ? std::string_view::npos : text.find(blamed);
    if (place != std::string_view::npos) {
      error.line += std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place), '\n');
    }
    return error;
  }

 private:
  // Words are parted by single spaces, whatever IFS says.
  static std::string loop(const ChannelPaths& paths) {
    return R"(builtin printf "L\\0" >)" + paths.report +
           "; while builtin read -l -d \" \" __rex_l __rex_q __rex_i __rex_o <" + paths.lines +
           "; builtin read -lz __rex_c <" + paths.command +
           "; builtin set -g __rex_n $__rex_l; begin; __rex_s $__rex_q; builtin eval $__rex_c; end <$__rex_i "
           R"(>$__rex_o 2>&1; builtin printf "%s %s|%s||%s\\0" $__rex_l $status "$__rex_ps" "$PWD" >)" +
           paths.report + "; builtin set -g __rex_n; builtin set -g __rex_ps; end";
  }
};

}  // namespace

const Dialect& fish_dialect() {
  static const Fish fish;
  return fish;
}

}  // namespace rex::shell
