// The command line. Knows every layer; holds no logic but the choice of a subcommand.
#include <nss.h>
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
#include "base/incidents.h"
#include "cli/address.h"
#include "cli/commands.h"
#include "cli/keep.h"
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
  rex-rpc run --host ssh://build7 'uname -a'                the same on another machine
  rex-rpc --help                                            the rest
)";

constexpr const char* examples = R"(Examples:
  rex-rpc run 'make -j8 2>&1 | tail -3'     exits with the pipeline's code
  rex-rpc run ls -l '/a dir'                several words are one program and its arguments
  rex-rpc call process/run '{"command": "id", "timeoutMs": 5000}'
  rex-rpc call file/read '{"path": "/etc/hostname"}'
  rex-rpc run --host gpu nvidia-smi         on a host of ~/.config/rex-rpc/hosts.json, or of a URL: --host ssh://gpu
  rex-rpc doctor --host gpu                 how that host is reached, or why it is not
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

constexpr const char* host_help =
    "Another machine: a name of ~/.config/rex-rpc/hosts.json, names behind each other (bastion/build7), or a URL: "
    "ssh://[USER@]HOST[:PORT], unix:///PATH, tcp://127.0.0.1:PORT, 'exec:docker exec -i web sh'";

constexpr const char* hosts_help =
    R"(The hosts of ~/.config/rex-rpc/hosts.json ($XDG_CONFIG_HOME is honoured), which every client may name as `host`:

  {"hosts": {
    "gpu": {"url": "ssh://me@gpu.example.org"},
    "web": {"argv": ["docker", "exec", "-i", "web", "sh"], "install": false},
    "vm":  {"url": "tcp://127.0.0.1:4711", "options": {"tokenFile": "/home/me/vm.token", "keepAliveMs": 5000}}
  }}

A host is reached by one of url and argv, a program whose input and output lead to a rex-rpc or to a shell that can become
one. `install: false` forbids to put a rex-rpc there. STATE is that of the instance which is asked (--connect): closed until
a first request goes there. Exits with 2 where the file is wrong, and says in which line or member.)";

constexpr const char* doctor_help =
    R"(With --host: reaches that host, puts nothing onto it, and tells each phase, what the host is and what it lacks, or the
phase that failed, in the words of what failed. Hosts behind the first are dialled as the files there say.)";

constexpr const char* token_help =
    "The token for tcp: in a file of mode 0600, made if there is none; read again for each new client. Without it: "
    "`token` in the runtime directory (`rex-rpc doctor` names it), where your own clients find it";

constexpr const char* mcp_help =
    R"(Your agent starts it and speaks MCP (2026-07-28, or 2025-11-25 and 2025-06-18) on its input and output. To tell it:

  claude mcp add --transport stdio rex-rpc -- rex-rpc mcp             Claude Code
  codex mcp add rex-rpc -- rex-rpc mcp                                Codex
  gemini mcp add rex-rpc rex-rpc mcp                                  Gemini CLI
  code --add-mcp '{"name":"rex-rpc","command":"rex-rpc","args":["mcp"]}'   VS Code
  {"mcpServers": {"rex-rpc": {"command": "rex-rpc", "args": ["mcp"]}}}     Cursor (~/.cursor/mcp.json) and many others

The agent gets a shell that keeps its directory, variables and jobs; a command that outlives a call goes on and can be
waited for, answered or interrupted; files, searches, and the hosts of ~/.config/rex-rpc/hosts.json by name. What it can
call, with every argument:

  npx @modelcontextprotocol/inspector@1 --cli rex-rpc mcp --method tools/list

You see what it does with `rex-rpc sessions`, and watch or type with `rex-rpc shell`. Its sessions end with it; with
--connect they are those of an instance that runs. Its commands run with your rights: rex-rpc is no sandbox.)";

/// Empty, or what CLI11 tells its user. The name of an instance may be anything.
std::string problem_with_address(const std::string& text) {
  try {
    parse_address(text);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

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
    return sessions(where, chosen.as_json);
  }
  if (chosen.logs->parsed()) {
    return logs(where, chosen.logs_options);
  }
  if (chosen.kill->parsed()) {
    return kill(where, chosen.killed);
  }
  if (chosen.shell->parsed() && !chosen.shell_options.session.empty()) {
    if (!where.host.empty()) {
      std::fputs("rex-rpc: shell: a SESSION is one of an instance here; with --host the shell is a new one\n", stderr);
      return 2;
    }
    return shell(where, chosen.shell_options);
  }
  return std::nullopt;
}

void add_connect(CLI::App& command, Where& where) {
  command.add_option("--connect", where.address,
                     "An instance that runs: its name or the beginning of it (`rex-rpc sessions`), unix:PATH, or "
                     "tcp:127.0.0.1:PORT");
  command.get_option("--connect")->check(problem_with_address);
  command.add_option("--token-file", where.token_file, "What an instance at tcp: is shown");
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

/// The C library of a static program would load what nsswitch.conf names, a stranger's shared objects, and crash with
/// them (test_install.py, H6). What it has built in finds local users, /etc/hosts and the DNS.
void look_up_names_without_plugins() {
#ifdef REX_STATIC
  __nss_configure_lookup("passwd", "files");
  __nss_configure_lookup("group", "files");
  __nss_configure_lookup("services", "files");
  __nss_configure_lookup("hosts", "files dns");
#endif
}

int main(int argc, char** argv) {
  transports::occupy_standard_streams();
  look_up_names_without_plugins();
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
  ServeOptions serving;
  serve->add_flag("--stdio", serving.on_stdio,
                  "One client, on standard input and output, and end with it (the default without --listen)");
  serve
      ->add_option("--listen", serving.listen,
                   "Any number of clients: unix:PATH for this user, tcp:127.0.0.1:PORT for whoever has the token; may "
                   "be given again")
      ->allow_extra_args(false);
  serve->add_option("--token-file", serving.token_file, token_help);

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
    add_connect(*command, where);
  }

  AgentOptions agent_options;
  CLI::App* agent_command = app.add_subcommand("agent", "")->group("");  // what a host's start script asks of us
  agent_command->add_option("WHAT", agent_options.what)
      ->required()
      ->check(CLI::IsMember({"verify", "adopt", "remove"}));
  agent_command->add_option("NAME", agent_options.name);
  agent_command->add_option("DIRECTORY", agent_options.directory);

  KeepOptions keep_options;
  CLI::App* keep_command = app.add_subcommand("keep", "")->group("");  // what an instance starts for a daemon session
  keep_command->add_option("SESSION", keep_options.session)->required();
  keep_command->add_option("--open-files", keep_options.open_files)->required();

  CLI::App* mcp_command = app.add_subcommand("mcp", "Serve an agent that speaks the Model Context Protocol");
  mcp_command->footer(mcp_help);
  add_connect(*mcp_command, where);
  CLI::App* schema = app.add_subcommand("schema", "Print the contract: an OpenRPC document with every method");
  CLI::App* doctor_command = app.add_subcommand("doctor", "Say what this machine offers and lacks, or how a host is");
  doctor_command->footer(doctor_help);
  CLI::App* hosts_command = app.add_subcommand("hosts", "List the hosts of your file");
  bool hosts_as_json = false;
  hosts_command->add_flag("--json", hosts_as_json, "As an array of HostInfo");
  hosts_command->footer(hosts_help);
  for (CLI::App* const command : {run_command, attending.shell, doctor_command}) {
    command->add_option("--host", where.host, host_help);
  }
  add_connect(*hosts_command, where);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  log_to_stderr(level);
  note_crashes("rex-rpc " + std::string(methods::version) + " " +
               (keep_command->parsed()          ? "session " + printable(keep_options.session)
                : app.get_subcommands().empty() ? "serve"
                                                : app.get_subcommands().front()->get_name()));
  if (agent_command->parsed()) {
    return agent(agent_options);
  }
  if (keep_command->parsed()) {
    keep_options.journal_memory = journal_memory;
    return keep(keep_options);
  }
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
  where.greets = !call_command->parsed() || method != "initialize";
  if (hosts_command->parsed()) {
    return hosts(where, hosts_as_json);
  }
  if (call_command->parsed()) {
    return call(where, method, params);
  }
  if (run_command->parsed()) {
    return run(where, words);
  }
  if (attending.shell->parsed()) {
    return shell(where, attending.shell_options);
  }
  if (mcp_command->parsed()) {
    where.asks = false;  // the person at the terminal is the agent's
    return mcp(where);
  }
  if (doctor_command->parsed()) {
    return where.host.empty() ? doctor(nursery) : doctor_of_host(where);
  }
  serving.is_private = where.is_private;
  serving.journal_memory = journal_memory;
  serving.on_stdio = serving.on_stdio || serving.listen.empty();
  return cli::serve(nursery, serving);
}

}  // namespace
}  // namespace rex::cli

int main(int argc, char** argv) {
  try {
    return rex::cli::main(argc, argv);
  } catch (const rex::Error& error) {
    std::fprintf(stderr, "rex-rpc: %s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rex-rpc: %s\n", error.what());
    rex::note_incident("ended: " + rex::printable(error.what()));
  }
  return 1;
}
