// From a shell's stream to a rex-rpc's: tells the shell what to do, sorts what comes back, and pushes a rex-rpc where
// there is none that fits. Must not know how the stream came about, nor what a rex-rpc is asked.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hosts/agents.h"
#include "hosts/script.h"
#include "relay/dial.h"

namespace rex::hosts {

/// How long a far side may say nothing of use: from the start line to our script's answer, and then each time.
inline constexpr Milliseconds start_patience{14000};

/// A stream to something that may be a shell.
struct Far {
  std::unique_ptr<Transport> transport;
  std::function<std::string()> last_words;  // as of relay::Reached
  std::function<bool()> ended_well = [] { return false; };
};

struct StartOptions {
  bool is_typed = true;  // the line goes to the shell's standard input; else it was given as a command already
  bool install = true;
  Milliseconds patience = start_patience;
};

/// Brings the far side to become a rex-rpc. `took` then tells which. Nothing, where the stream ended well without a
/// byte: so does a rex-rpc that is given a line of shell. Throws HostUnreachable with phase `shell` or `install`,
/// RequestCancelled.
Task<std::optional<relay::Reached>> start(Executor executor, Far far, StartScript script, std::vector<Agent> agents,
                                          StartOptions options, relay::Attempt* attempt);

}  // namespace rex::hosts
