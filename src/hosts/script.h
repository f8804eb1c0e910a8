// The texts that bring a shell to become a rex-rpc. Pure; start.h speaks them, and says what comes back.
#pragma once

#include <string>
#include <vector>

#include "hosts/agents.h"

namespace rex::hosts {

/// What the far side is told to say, and the line that tells it.
struct StartScript {
  std::string sentinel;  // begins each line of ours; random, and nowhere in `line` as a whole
  std::string line;      // without its newline
};

/// A line that any login shell takes, as a command or from its standard input: it has no newline, no `'`, `!` or `\`
/// within its one pair of quotes. It hands over to /bin/sh, which looks for one of `agents` where install_command puts
/// them, and says `ready PATH` and becomes it, or `need SYSTEM/MACHINE` and reads a command of one line.
StartScript make_start_script(const std::vector<Agent>& agents);

/// The command, one line, that takes `agent` in. It says `send DIRECTORY` when the next `agent.size` bytes are to be
/// the file, then `ready PATH` and becomes it; or `tried DIRECTORY: REASON` and goes on with the next directory of its
/// list; at the end of that, `none`.
std::string install_command(const Agent& agent);

/// The command, one line, that becomes the rex-rpc of this very version on PATH: `ready PATH`, or `none`.
std::string path_command();

}  // namespace rex::hosts
