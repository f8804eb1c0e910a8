// `rex-rpc agent`: what the script that starts us on a host asks of us there. For no person.
#include "hosts/agents.h"

#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"

namespace rex::cli {

int agent(const AgentOptions& options) {
  try {
    if (options.what == "remove") {
      hosts::remove_agents();
      return 0;
    }
    if (options.what == "adopt") {
      hosts::adopt(options.name, options.directory);
    } else if (!hosts::is_intact("/proc/self/exe", options.name)) {
      return 1;
    }
    return std::puts(options.name.c_str()) < 0 ? 1 : 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace rex::cli
