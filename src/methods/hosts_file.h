// The hosts that the user has written into a file: read strictly, and anew when the file has changed. Must not know how
// a host is reached; whether a target can be one is asked of a function.
#pragma once

#include <sys/types.h>

#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "methods/deployments.h"
#include "methods/wire.gen.h"
#include "relay/hosts.h"

namespace rex::methods {

inline constexpr std::size_t max_hosts_file_bytes = 1U << 20U;

/// `rex-rpc/hosts.json` in $XDG_CONFIG_HOME where that is absolute, else in ~/.config; empty without a home.
std::string default_hosts_file();

/// What the file says in the words of `host/connect`; `own` are the user's deployments. Throws InvalidParams.
relay::Target to_target(const wire::HostEntry& entry, const Deployments& own);
Milliseconds to_keep_alive(const std::optional<wire::HostOptions>& options);

class HostsFile {
 public:
  /// Throws for a target that cannot be one.
  using Check = std::function<void(const relay::Target& target)>;

  HostsFile(std::string path, Check check) : path_(std::move(path)), check_(std::move(check)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  /// As the file is now; none where there is no file. Throws InvalidParams that names the file with the line or the
  /// member that is wrong, NotPermitted for a file that others could have written, and OsError.
  const std::map<std::string, relay::Known>& hosts();
  /// The user's own, as the file is now; none where the file is wrong, which `hosts` tells.
  const Deployments& deployments();
  /// Throws HostNotFound, with what `hosts` throws as its `detail`.
  std::optional<relay::Known> find(const std::string& name);

 private:
  /// Whatever changes the file changes one of these.
  struct Version {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = -1;
    std::int64_t modified = 0;  // in nanoseconds, as the next
    std::int64_t changed = 0;
    bool operator==(const Version&) const = default;
  };

  void read();
  void take(const nlohmann::json& document);

  std::string path_;
  Check check_;
  std::optional<Version> version_;  // of what was read; null before
  std::map<std::string, relay::Known> hosts_;
  Deployments deployments_;
  std::optional<Error> problem_;
};

}  // namespace rex::methods
