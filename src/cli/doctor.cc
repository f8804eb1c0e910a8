// `rex-rpc doctor`: what this machine offers, what it lacks, and what that costs.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "base/incidents.h"
#include "base/own_file.h"
#include "cli/commands.h"
#include "methods/version.h"
#include "shell/guardian.h"
#include "shell/pty.h"
#include "transports/ssh.h"
#include "transports/unix.h"

namespace rex::cli {
namespace {

constexpr std::size_t max_incident_bytes = std::size_t{4} << 20;

struct Check {
  const char* name;
  bool ok;
  const char* without;  // what it means where it is missing
};

bool has_pty() {
  try {
    const shell::Pty pty({24, 80}, false);
    return true;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

bool can_start(shell::Nursery& nursery) {
  try {
    shell::Launch launch{{"true"}, {"PATH=/usr/bin:/bin"}, "/", false};
    const Fd guardian = nursery.spawn(launch, 0, 1, 2);
    shell::Report report{};
    return recv(guardian.get(), &report, sizeof report, 0) == sizeof report && report.kind == shell::Report::started;
  } catch (const Error&) {
    return false;
  }
}

/// Whether others of this user can find what is started here.
bool has_runtime_directory(const std::string& path) {
  try {
    const transports::PrivateDirectory directory(path);
    return true;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

/// The last line of their file that says what happened; empty where there is none.
std::string newest_incident() {
  std::string newest;
  try {
    std::istringstream file(read_own_file(incident_file(), "the file of incidents", Trust::secret, max_incident_bytes));
    for (std::string line; std::getline(file, line);) {
      const bool says_where =
          line.find(": crashed at ") != std::string::npos || line.find(": it is at ") != std::string::npos;
      newest = says_where ? newest : line;
    }
  } catch (const Error&) {  // mostly there is none
  }
  return newest;
}

bool on_path(const char* program) {
  return access((std::string("/bin/") + program).c_str(), X_OK) == 0 ||
         access((std::string("/usr/bin/") + program).c_str(), X_OK) == 0;
}

}  // namespace

int doctor(shell::Nursery& nursery) {
  utsname system{};
  uname(&system);
  std::printf("rex-rpc %s on %s %s, %s\n", std::string(methods::version).c_str(), system.sysname, system.release,
              system.machine);
  char link[8];
  const bool proc = readlink("/proc/self/exe", link, sizeof link) > 0;
  const bool children = std::ifstream("/proc/self/task/" + std::to_string(getpid()) + "/children").good();
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  const std::string runtime = transports::runtime_directory();
  const std::string runtime_check = "runtime directory " + printable(runtime);
  const Check checks[] = {
      {"pseudo-terminals", has_pty(), "sessions cannot be created; programs on pipes can"},
      {"starting programs", can_start(nursery), "nothing can be run"},
      {"/proc", proc, "shells cannot be told their commands, trees cannot be proven ended"},
      {"/proc/PID/task/TID/children", children, "the kernel lacks CONFIG_PROC_CHILDREN: trees cannot be walked"},
      {"pidfd (Linux 5.3)", static_cast<bool>(pidfd), "signals to a tree cannot be sent safely"},
      {runtime_check.c_str(), has_runtime_directory(runtime),
       "your other programs cannot find sessions that are started here, and TCP has no token unless --token-file says"},
      {"bash", on_path("bash"), "sessions use sh"},
  };
  int missing = 0;
  for (const Check& check : checks) {
    std::printf("%-4s %s%s%s\n", check.ok ? "ok" : "LACK", check.name, check.ok ? "" : ": ",
                check.ok ? "" : check.without);
    missing += check.ok ? 0 : 1;
  }
  if (const std::string why = transports::why_no_libssh(); !why.empty()) {
    std::printf("note hosts at ssh:// are left to your own ssh: %s\n", printable(why).c_str());
  }
  if (const std::string newest = newest_incident(); !newest.empty()) {
    std::printf("note last noted in %s, which may be removed: %s\n", printable(incident_file()).c_str(),
                printable(newest).c_str());
  }
  return missing == 0 ? 0 : 1;
}

}  // namespace rex::cli
