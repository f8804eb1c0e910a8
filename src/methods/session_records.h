// What is kept of daemon sessions outside their processes, so that one that the machine took with it is told as lost:
// a file for each, in the user's state directory. Must not know how a session is reached.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "methods/wire.gen.h"

namespace rex::methods {

/// Sessions that are recorded; of one more nobody knows once it is lost.
inline constexpr std::size_t max_session_records = 10'000;

/// `rex-rpc/sessions` in $XDG_STATE_HOME, else in ~/.local/state; empty where the user has no home.
std::string default_record_directory();

/// The process of a session writes its record when the session is there, and removes it when that is ended as it
/// should. One without a process behind it is of a session that is lost. Passive; all of it blocks.
class SessionRecords {
 public:
  /// `place`: the directory of the sockets of those processes, by whose names the records go. The directory of the
  /// records is made for the first one.
  SessionRecords(std::string directory, const std::string& place);

  /// On the disk when it returns. Throws OsError, NotPermitted, LimitExceeded.
  void keep(const std::string& socket, const wire::SessionInfo& info) const;
  /// False where there is none.
  bool remove(const std::string& socket) const;
  [[nodiscard]] bool contains(const std::string& socket) const;
  /// As of a session that is lost, for its process is not there. Nothing for a record that cannot be read.
  [[nodiscard]] std::optional<wire::SessionInfo> find(const std::string& socket) const;

  struct Lost {
    std::vector<wire::SessionInfo> sessions;
    std::string problem;  // of the first record that is damaged, and how many more are; empty where none is
  };
  /// Those that are lost: recorded, and by `is_there` no process has the socket.
  [[nodiscard]] Lost lost(const std::function<bool(const std::string& socket)>& is_there) const;

 private:
  [[nodiscard]] std::vector<std::string> sockets() const;
  [[nodiscard]] std::string path_of(const std::string& socket) const { return directory_ + "/" + prefix_ + socket; }

  std::string directory_;
  std::string prefix_;  // of the names of the files: this machine and place
};

}  // namespace rex::methods
