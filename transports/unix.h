// Unix sockets as transports: a listener whose clients are this user's own, and the way to one.
// Must not know JSON or methods, nor what the sockets of a directory are for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "transports/listener.h"
#include "transports/transport.h"

namespace rex::transports {

/// What the names of sockets end with, behind that of an instance or of the keeper of a session.
inline constexpr std::string_view socket_suffix = ".sock";

/// A directory that only its owner, us, can look into; held open, so that nobody can put another one in its place.
class PrivateDirectory {
 public:
  /// Opens it, or makes it with mode 0700. Throws OsError, and NotPermitted for one that is a symbolic link, another
  /// user's, or open to others.
  explicit PrivateDirectory(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The names of the sockets in it, sorted; hidden ones are left out.
  [[nodiscard]] std::vector<std::string> sockets() const;
  [[nodiscard]] bool contains(const std::string& name) const;

 private:
  std::string path_;
  Fd fd_;
};

/// Where the instances of this user have their sockets: rex-rpc in $XDG_RUNTIME_DIR, else in /run/user/UID, where there
/// is such a directory of ours; else /tmp/rex-rpc-UID.
std::string runtime_directory();

/// Where what outlives its user's last logout has its sockets: as `runtime_directory`, but never below /run/user/UID,
/// which systemd-logind takes away then.
std::string lasting_directory();

/// The right to a name in a directory, which one living process has at a time: the kernel takes it back from a dead
/// one.
class Claim {
 public:
  /// Empty while another process has it. Throws OsError.
  static std::optional<Claim> on(const PrivateDirectory& directory, const std::string& name);
  Claim(Claim&&) = default;
  Claim& operator=(Claim&&) = delete;
  ~Claim();

 private:
  Claim(Fd directory, std::string file, Fd lock)
      : directory_(std::move(directory)), file_(std::move(file)), lock_(std::move(lock)) {}

  Fd directory_;
  std::string file_;
  Fd lock_;
};

/// Accepts clients of this very user, whatever the modes of the socket and its directory have become.
class UnixListener final : public Listener {
 public:
  /// Listens on the socket `name` of a directory. It comes into being with mode 0600 and already answering: whoever is
  /// refused by a socket here has found a dead instance's, and what that left is replaced.
  UnixListener(Executor executor, std::shared_ptr<const PrivateDirectory> directory, std::string name);
  /// Listens at a path of the user's choice. Throws OsError EADDRINUSE while another process does, for which it keeps a
  /// locked file `PATH.lock`; a socket that a dead one left is replaced.
  UnixListener(Executor executor, const std::string& path);
  /// Unlinks the socket.
  ~UnixListener() override;

  Task<std::unique_ptr<Transport>> accept() override;
  /// Unlinks the socket, too.
  void close() override;
  [[nodiscard]] bool vouches() const override { return true; }

 private:
  void listen_at(const std::string& name);
  void remove();

  Executor executor_;
  Fd directory_;
  std::string name_;
  Fd lock_;
  std::unique_ptr<AsyncFd> socket_;
  bool removed_ = false;
};

/// Connects to the socket `name` of a directory; null when nobody listens there any more, and then it is removed,
/// unless somebody has a Claim on it by now.
/// Throws OsError, with EAGAIN when it is too busy to take another client.
std::unique_ptr<Transport> dial_or_bury(Executor executor, const PrivateDirectory& directory, const std::string& name);

/// Connects to a socket anywhere. Throws OsError.
std::unique_ptr<Transport> dial_unix(Executor executor, const std::string& path);

/// A transport over a connected socket.
std::unique_ptr<Transport> over_socket(Executor executor, Fd socket);

}  // namespace rex::transports
