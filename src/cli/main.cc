// The command line. Knows every layer; holds no logic but the choice of a subcommand.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "methods/version.h"
#include "methods/wire.gen.h"
#include "shell/sessions.h"
#include "transports/stdio.h"

namespace rex::cli {
namespace {

constexpr const char* welcome =
    R"(rex-rpc gives programs a shell: they write JSON-RPC 2.0 to its standard input and read the
answers from its standard output. You are at a terminal, so nothing is served. Try:

  rex-rpc run 'uname -a'                                    run a command, with its exit code
  rex-rpc shell                                             a shell that others can watch and find
  rex-rpc sessions                                          every session there is, of agents too
  rex-rpc call session/list                                 send one request, see the answer
  printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"process/run","params":{"command":"uname -a"}}' | rex-rpc
  rex-rpc schema                                            every method, as an OpenRPC document
  rex-rpc doctor                                            what this machine offers and lacks
  rex-rpc --help                                            the rest
)";

constexpr const char* examples = R"(Examples:
  rex-rpc run 'make -j8 2>&1 | tail -3'     exits with the pipeline's code
  rex-rpc run ls -l '/a dir'                several words are one program and its arguments
  rex-rpc call process/run '{"command": "id", "timeoutMs": 5000}'
  rex-rpc call file/read '{"path": "/etc/hostname"}'
  rex-rpc sessions                          every session of yours on this machine, also those of agents
  rex-rpc shell 4711/main                   watch one; Enter ~ t types into it, Enter ~ . leaves
  rex-rpc logs --follow main                the same for a pipe

Exit codes: 0 done, 1 failed, 2 wrong usage; `run` and `shell` exit with their command's code.
Logs go to standard error (--log LEVEL), never to standard output.)";

constexpr const char* sessions_help =
    "Every session of yours on this machine, whoever started it: `INSTANCE/SESSION` names one for shell, logs and "
    "kill.\n"
    "WRITER is whoever holds the lease on typing. What does not answer is told on standard error.";

constexpr const char* session_name_help =
    "SESSION, or INSTANCE/SESSION; the beginning of the instance's name is enough";

constexpr const char* shell_help =
    R"(A terminal on a session. Without SESSION it is a new one of your own shell, which ends with it and which others can
watch meanwhile. With SESSION you first only watch, whoever drives it, and it stays in the size it has. Keys:

  Enter ~ .   leave; the session goes on, in the size it had before
  Enter ~ t   type: you hold the lease, and other clients cannot run commands or type until you hand it back
  Enter ~ T   the same, also when another person holds it, who then watches
  Enter ~ w   hand it back and watch on
  Enter ~ ?   these keys
  Enter ~ ~   a ~ for the program

At the prompt of an agent's shell, which has none of its own, you are given one: a line typed there is run as the agent's
commands are. Exits with the code of the session's program when that ends.)";

/// The commands that are about sessions of others.
struct Attending {
  CLI::App* sessions = nullptr;
  CLI::App* logs = nullptr;
  CLI::App* kill = nullptr;
  CLI::App* shell = nullptr;
  bool as_json = false;
  LogsOptions logs_options;
  std::vector<std::string> killed;
  ShellOptions shell_options;
};

void add_attending(CLI::App& app, Attending& to) {
  to.shell = app.add_subcommand("shell", "Your terminal on a session: watch it, type into it, hand it back");
  to.shell->add_option("SESSION", to.shell_options.session, session_name_help);
  to.shell->add_flag("--takeover", to.shell_options.takeover, "Type at once, whoever else does");
  to.shell->footer(shell_help);
  to.sessions = app.add_subcommand("sessions", "List the sessions of every instance");
  to.sessions->add_flag("--json", to.as_json, "As an array of SessionInfo, each with its `instance`");
  to.sessions->footer(sessions_help);
  to.logs = app.add_subcommand("logs", "Print what a session has written");
  to.logs->add_option("SESSION", to.logs_options.session, session_name_help)->required();
  to.logs->add_flag("-f,--follow", to.logs_options.follow, "Go on until the session ends");
  to.logs->add_option("--from", to.logs_options.from, "Offset of the first byte; else the oldest that is kept")
      ->check(CLI::NonNegativeNumber);
  to.logs->footer("The bytes as they are; on a terminal without colours, and with control characters as \\xHH.");
  to.kill = app.add_subcommand("kill", "End sessions with all they started, and name what is left");
  to.kill->add_option("SESSION", to.killed, session_name_help)->required();
}

/// The exit code of one of them that needs no instance of its own.
std::optional<int> attend(const Attending& chosen, const Where& where) {
  if (chosen.sessions->parsed()) {
    return sessions(where.address, chosen.as_json);
  }
  if (chosen.logs->parsed()) {
    return logs(where.address, chosen.logs_options);
  }
  if (chosen.kill->parsed()) {
    return kill(where.address, chosen.killed);
  }
  if (chosen.shell->parsed() && !chosen.shell_options.session.empty()) {
    return shell(where, chosen.shell_options);
  }
  return std::nullopt;
}

int print_schema() {
  const std::string_view document = wire::openrpc_document();
  return std::fwrite(document.data(), 1, document.size(), stdout) == document.size() && std::puts("") >= 0 ? 0 : 1;
}

void log_to_stderr(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_logger_st("rex-rpc"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  spdlog::set_level(spdlog::level::from_str(level));
}

int main(int argc, char** argv) {
  transports::occupy_standard_streams();
  if (getauxval(AT_SECURE) != 0) {
    std::fputs("rex-rpc: refuses to run setuid or setgid: whoever calls it would act as its owner\n", stderr);
    return 2;
  }
  CLI::App app("A shell for programs that never hangs and never lies: JSON-RPC 2.0 on standard input and output.");
  app.footer(examples);
  app.set_version_flag("--version", "rex-rpc " + std::string(methods::version));
  app.require_subcommand(0, 1);
  std::string level = "warning";
  app.add_option("--log", level, "Least level that is logged to standard error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();

  std::size_t journal_memory = shell::default_journal_memory;
  app.add_option("--journal-memory", journal_memory,
                 "Bytes of memory for the output of all sessions; the rest is in files")
      ->capture_default_str();

  Where where;
  app.add_flag("--private", where.is_private,
               "Keep the instance out of the runtime directory, where your other programs find it");

  CLI::App* serve = app.add_subcommand("serve", "Serve clients; what `rex-rpc` does when its input is no terminal");
  bool on_stdio = true;
  serve->add_flag("--stdio", on_stdio, "One client, on standard input and output (the default)");
  std::string listen;
  serve->add_option("--listen", listen, "Any number of clients of this user, on a socket: unix:PATH");

  CLI::App* call_command = app.add_subcommand("call", "Send one request and print its result");
  std::string method;
  std::string params;
  call_command->add_option("METHOD", method, "For example session/list; `rex-rpc schema` has all")->required();
  call_command->add_option("JSON", params, "The params, an object");

  CLI::App* run_command =
      app.add_subcommand("run", "Run a command with its output as it comes, and exit with its code");
  std::vector<std::string> words;
  run_command
      ->add_option("COMMAND", words, "One word is a command line for sh, several are a program and its arguments")
      ->required();
  run_command->prefix_command(false);
  run_command->positionals_at_end(true);

  Attending attending;
  add_attending(app, attending);
  for (CLI::App* const command :
       {call_command, run_command, attending.sessions, attending.logs, attending.kill, attending.shell}) {
    command->add_option("--connect", where.address,
                        "An instance that runs: its name or the beginning of it (`rex-rpc sessions`), or unix:PATH");
  }

  CLI::App* schema = app.add_subcommand("schema", "Print the contract: an OpenRPC document with every method");
  CLI::App* doctor_command = app.add_subcommand("doctor", "Say what this machine offers and what it lacks");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  log_to_stderr(level);
  if (schema->parsed()) {
    return print_schema();
  }
  if (app.get_subcommands().empty() && isatty(STDIN_FILENO) != 0) {
    std::fputs(welcome, stdout);
    return 0;
  }
  if (const std::optional<int> code = attend(attending, where)) {
    return *code;
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error of write, for file/write and the journal's spool
  shell::Nursery nursery;         // forks: before anything else is made
  where.nursery = &nursery;
  if (call_command->parsed()) {
    return call(where, method, params);
  }
  if (run_command->parsed()) {
    return run(where, words);
  }
  if (attending.shell->parsed()) {
    return shell(where, attending.shell_options);
  }
  if (doctor_command->parsed()) {
    return doctor(nursery);
  }
  const ServeOptions serving{where.is_private, journal_memory};
  if (!listen.empty()) {
    return serve_listening(nursery, listen, serving);
  }
  return serve_stdio(nursery, serving);
}

}  // namespace
}  // namespace rex::cli

int main(int argc, char** argv) {
  try {
    return rex::cli::main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rex-rpc: %s\n", error.what());
    return 1;
  }
}
