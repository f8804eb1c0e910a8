// Keys that outlive every process of ours: of changes to files, and of making and ending sessions that have a process
// of their own. Kept in files of this user, so that whichever instance is asked knows. Must not know what a request
// does.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/async.h"
#include "methods/wire.gen.h"

namespace rex::methods {

/// Clients of one user whose keys are kept. Where another comes, those that have asked for nothing for so long are
/// forgotten; else it is refused.
inline constexpr std::size_t max_stored_clients = 10'000;
inline constexpr std::chrono::hours silence_of_an_ended_client{30 * 24};

/// `rex-rpc/keys` in $XDG_STATE_HOME, else in ~/.local/state; empty where the user has no home.
std::string default_key_directory();

/// A directory for each client, and in it a file for each key: `boot` and `digest` of the request in its first line,
/// the answer in the second, with a digest of both as its last member. Whoever executes the request holds a lock on the
/// file, which the kernel takes back from a dead process; a lock on the directory is held for each look. What a client
/// has acknowledged is the name of a file too.
class KeyStore {
 public:
  /// The directory is made for the first key.
  KeyStore(Executor executor, Workers& workers, std::string directory)
      : executor_(executor), workers_(workers), directory_(std::move(directory)) {}

  /// As Keys::once, for all processes of this user. Throws also OutcomeUnknown `interrupted` and `reboot`, and OsError
  /// or NotPermitted where nothing can be kept; nothing was done then.
  Task<nlohmann::json> once(wire::Key key, std::string_view method, nlohmann::json params, Cancel& cancel,
                            std::function<Task<nlohmann::json>()> work);

 private:
  Executor executor_;
  Workers& workers_;
  std::string directory_;
};

}  // namespace rex::methods
