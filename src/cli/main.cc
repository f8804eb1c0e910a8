// The command line. Knows every layer; holds no logic but the choice of a subcommand.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "methods/version.h"
#include "methods/wire.gen.h"
#include "transports/stdio.h"

namespace rex::cli {
namespace {

constexpr const char* welcome =
    R"(rex-rpc gives programs a shell: they write JSON-RPC 2.0 to its standard input and read the
answers from its standard output. You are at a terminal, so nothing is served. Try:

  rex-rpc run 'uname -a'                                    run a command, with its exit code
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

Exit codes: 0 done, 1 failed, 2 wrong usage; `run` exits with its command's code.
Logs go to standard error (--log LEVEL), never to standard output.)";

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

  CLI::App* serve = app.add_subcommand("serve", "Serve one client; what `rex-rpc` does when its input is no terminal");
  bool on_stdio = true;
  serve->add_flag("--stdio", on_stdio, "On standard input and output (the only way there is yet)");

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
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error of write, for file/write and the journal's spool
  shell::Nursery nursery;         // forks: before anything else is made
  if (call_command->parsed()) {
    return call(nursery, method, params);
  }
  if (run_command->parsed()) {
    return run(nursery, words);
  }
  if (doctor_command->parsed()) {
    return doctor(nursery);
  }
  return serve_stdio(nursery);
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
