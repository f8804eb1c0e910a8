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

/// What the command line says.
struct CommandLine {
  std::string command;  // empty: none was given
  std::string log_level = "warning";
  std::size_t journal_memory = shell::default_journal_memory;
  Where where;
  ServeOptions serve;
  std::string method;  // of `call`, with its params
  std::string params;
  std::vector<std::string> words;  // of `run`
  bool as_json = false;            // `sessions` and `hosts`
  LogsOptions logs;
  std::vector<std::string> killed;
  ShellOptions shell;
  AgentOptions agent;
  KeepOptions keep;
};

void add_connect(CLI::App& command, Where& where) {
  command.add_option("--connect", where.address,
                     "An instance that runs: its name or the beginning of it (`rex-rpc sessions`), unix:PATH, or "
                     "tcp:127.0.0.1:PORT");
  command.get_option("--connect")->check(problem_with_address);
  command.add_option("--token-file", where.token_file, "What an instance at tcp: is shown");
}

void add_host(CLI::App& command, Where& where) { command.add_option("--host", where.host, host_help); }

void add_options(CLI::App& app, CommandLine& line) {
  app.add_option("--log", line.log_level, "Least level that is logged to standard error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  app.add_option("--journal-memory", line.journal_memory,
                 "Bytes of memory for the output of all sessions; the rest is in files")
      ->capture_default_str();
  app.add_flag("--private", line.where.is_private,
               "Keep the instance out of the runtime directory, where your other programs find it");
}

void add_serving(CLI::App& app, CommandLine& line) {
  CLI::App* const serve =
      app.add_subcommand("serve", "Serve clients; what `rex-rpc` does when its input is no terminal");
  serve->add_flag("--stdio", line.serve.on_stdio,
                  "One client, on standard input and output, and end with it (the default without --listen)");
  serve
      ->add_option("--listen", line.serve.listen,
                   "Any number of clients: unix:PATH for this user, tcp:127.0.0.1:PORT for whoever has the token; may "
                   "be given again")
      ->allow_extra_args(false);
  serve->add_option("--token-file", line.serve.token_file, token_help);
}

void add_asking(CLI::App& app, CommandLine& line) {
  CLI::App* const call = app.add_subcommand("call", "Send one request and print its result");
  call->add_option("METHOD", line.method, "For example session/list; `rex-rpc schema` has all")->required();
  call->add_option("JSON", line.params, "The params, an object");
  add_connect(*call, line.where);
  CLI::App* const run = app.add_subcommand("run", "Run a command with its output as it comes, and exit with its code");
  run->add_option("COMMAND", line.words, "One word is a command line for sh, several are a program and its arguments")
      ->required();
  run->prefix_command(false);
  run->positionals_at_end(true);
  add_connect(*run, line.where);
  add_host(*run, line.where);
}

/// The commands that are about sessions of others.
void add_attending(CLI::App& app, CommandLine& line) {
  CLI::App* const shell =
      app.add_subcommand("shell", "Your terminal on a session: watch it, type into it, hand it back");
  shell->add_option("SESSION", line.shell.session, session_name_help);
  shell->add_flag("--takeover", line.shell.takeover, "Type at once, whoever else does");
  shell->footer(shell_help);
  CLI::App* const sessions = app.add_subcommand("sessions", "List the sessions of every instance");
  sessions->add_flag("--json", line.as_json, "As an array of SessionInfo, each with its `instance`");
  sessions->footer(sessions_help);
  CLI::App* const logs = app.add_subcommand("logs", "Print what a session has written");
  logs->add_option("SESSION", line.logs.session, session_name_help)->required();
  logs->add_flag("-f,--follow", line.logs.follow, "Go on until the session ends");
  logs->add_option("--from", line.logs.from, "Offset of the first byte; else the oldest that is kept")
      ->check(CLI::NonNegativeNumber);
  logs->footer("The bytes as they are; on a terminal without colours, and with control characters as \\xHH.");
  CLI::App* const kill = app.add_subcommand("kill", "End sessions with all they started, and name what is left");
  kill->add_option("SESSION", line.killed, session_name_help)->required();
  for (CLI::App* const command : {shell, sessions, logs, kill}) {
    add_connect(*command, line.where);
  }
  add_host(*shell, line.where);
}

/// What other rex-rpcs start. Not among the rest: a session's process lives for weeks with what its start has touched.
void add_internal(CLI::App& app, CommandLine& line) {
  CLI::App* const agent = app.add_subcommand("agent", "What the start script of a host asks");
  agent->add_option("WHAT", line.agent.what)->required()->check(CLI::IsMember({"verify", "adopt", "remove"}));
  agent->add_option("NAME", line.agent.name);
  agent->add_option("DIRECTORY", line.agent.directory);
  CLI::App* const keep = app.add_subcommand("keep", "What an instance starts for a daemon session");
  keep->add_option("SESSION", line.keep.session)->required();
  keep->add_option("--open-files", line.keep.open_files)->required();
  keep->add_option("--core-filter", line.keep.core_filter);
  keep->add_option("--journal-memory", line.keep.journal_memory)->required();
}

bool is_internal(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  return first == "agent" || first == "keep";
}

void add_rest(CLI::App& app, CommandLine& line) {
  CLI::App* const mcp = app.add_subcommand("mcp", "Serve an agent that speaks the Model Context Protocol");
  mcp->footer(mcp_help);
  add_connect(*mcp, line.where);
  app.add_subcommand("schema", "Print the contract: an OpenRPC document with every method");
  CLI::App* const doctor = app.add_subcommand("doctor", "Say what this machine offers and lacks, or how a host is");
  doctor->footer(doctor_help);
  add_host(*doctor, line.where);
  CLI::App* const hosts = app.add_subcommand("hosts", "List the hosts of your file");
  hosts->add_flag("--json", line.as_json, "As an array of HostInfo");
  hosts->footer(hosts_help);
  add_connect(*hosts, line.where);
}

/// The exit code where nothing is left to be done: it was wrong, or asked for help.
std::optional<int> read_command_line(int argc, char** argv, CommandLine& line) {
  CLI::App app("A shell for programs that never hangs and never lies: JSON-RPC 2.0 on standard input and output.");
  app.footer(examples);
  app.set_version_flag("--version", "rex-rpc " + std::string(methods::version));
  app.require_subcommand(0, 1);
  if (is_internal(argc, argv)) {
    add_internal(app, line);
  } else {
    add_options(app, line);
    add_serving(app, line);
    add_asking(app, line);
    add_attending(app, line);
    add_rest(app, line);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  line.command = app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name();
  return std::nullopt;
}

int print_schema() {
  const std::string_view document = wire::openrpc_document();
  return std::fwrite(document.data(), 1, document.size(), stdout) == document.size() && std::puts("") >= 0 ? 0 : 1;
}

/// The exit code of a command that needs no nursery.
std::optional<int> do_without_nursery(CommandLine& line) {
  if (line.command == "agent") {
    return agent(line.agent);
  }
  if (line.command == "keep") {  // makes its own, once it is on its own
    return keep(line.keep);
  }
  if (line.command == "schema") {
    return print_schema();
  }
  if (line.command.empty() && isatty(STDIN_FILENO) != 0) {
    std::fputs(welcome, stdout);
    return 0;
  }
  if (line.command == "sessions") {
    return sessions(line.where, line.as_json);
  }
  if (line.command == "logs") {
    return logs(line.where, line.logs);
  }
  if (line.command == "kill") {
    return kill(line.where, line.killed);
  }
  if (line.command == "shell" && !line.shell.session.empty()) {
    if (!line.where.host.empty()) {
      std::fputs("rex-rpc: shell: a SESSION is one of an instance here; with --host the shell is a new one\n", stderr);
      return 2;
    }
    return shell(line.where, line.shell);
  }
  return std::nullopt;
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
  CommandLine line;
  if (const std::optional<int> code = read_command_line(argc, argv, line)) {
    return *code;
  }
  log_to_stderr(line.log_level);
  note_crashes("rex-rpc " + std::string(methods::version) + " " +
               (line.command == "keep" ? "session " + printable(line.keep.session)
                : line.command.empty() ? "serve"
                                       : line.command));
  if (const std::optional<int> code = do_without_nursery(line)) {
    return *code;
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error of write, for file/write and the journal's spool
  shell::Nursery nursery;         // forks: before anything else is made
  Where& where = line.where;
  where.nursery = &nursery;
  where.greets = line.command != "call" || line.method != "initialize";
  if (line.command == "hosts") {
    return hosts(where, line.as_json);
  }
  if (line.command == "call") {
    return call(where, line.method, line.params);
  }
  if (line.command == "run") {
    return run(where, line.words);
  }
  if (line.command == "shell") {
    return shell(where, line.shell);
  }
  if (line.command == "mcp") {
    where.asks = false;  // the person at the terminal is the agent's
    return mcp(where);
  }
  if (line.command == "doctor") {
    return where.host.empty() ? doctor(nursery) : doctor_of_host(where);
  }
  line.serve.is_private = where.is_private;
  line.serve.journal_memory = line.journal_memory;
  line.serve.on_stdio = line.serve.on_stdio || line.serve.listen.empty();
  return cli::serve(nursery, line.serve);
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
