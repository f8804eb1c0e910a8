// A program whose stdin and stdout are a transport, and whose stderr is kept for whoever asks why it ended.
// Must not know JSON or methods, nor how programs are started here: whoever can do that is handed in.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "transports/transport.h"

namespace rex::transports {

struct Ending {
  bool well;          // exited with 0
  std::string words;  // "exited with 1", "was killed by signal 9"
};

/// A program that was started. Letting go of the last copy ends the whole tree of its processes at once.
struct Child {
  std::shared_ptr<Event> exited;                  // fires at the program's end
  std::function<std::optional<Ending>()> ending;  // empty while it runs
  std::function<bool()> is_gone;                  // whether all of its tree has ended
};

/// Starts a program that sees these three descriptors (not owned) and no others, and sees to it that its tree dies with
/// us, whatever becomes of us. Throws StartFailed.
using Spawner = std::function<Task<Child>(std::vector<std::string> argv, int in, int out, int err)>;

struct Executed {
  std::unique_ptr<Transport> transport;
  /// How the program ended and the end of what it said on stderr, in one line; empty while it runs and is silent.
  std::function<std::string()> last_words;
  /// Whether it has ended with 0.
  std::function<bool()> succeeded;
  /// Whether it has ended as if all were well, and without a complaint.
  std::function<bool()> ended_well;
};

/// Starts the program. Its tree gets a moment to end by itself once the transport is closed, and is let go of when it
/// has; it gets none when the transport is destroyed. Throws StartFailed and OsError.
Task<Executed> execute(Executor executor, Spawner spawner, std::vector<std::string> argv);

}  // namespace rex::transports
