// Finding the instances of this user by their sockets in the runtime directory, and sessions by `[instance/]session`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/client.h"

namespace rex::cli {

/// What follows an instance's name in the name of its socket.
inline constexpr const char* socket_suffix = ".sock";

/// How long an instance may take to list its sessions before it counts as one that does not answer.
inline constexpr Milliseconds instance_patience{2000};

struct Instance {
  std::string name;
  Client client;            // null when it could not be reached; `problem` says why
  nlohmann::json sessions;  // an array of SessionInfo
  std::string problem;
};

/// Connects to `unix:PATH`, or to the instance of this name or the only one whose name begins so. Throws.
Client dial(ClientSide& side, const std::string& address);

/// Every living instance with its sessions; those of dead ones lose their sockets. With an address, only that one.
Task<std::vector<Instance>> look_around(ClientSide& side, std::string address);

struct Found {
  Client client;
  std::string instance;
  nlohmann::json info;

  [[nodiscard]] std::string session() const { return info["session"].get<std::string>(); }
  [[nodiscard]] std::string full_name() const { return instance + "/" + session(); }
};

/// The one session that `name` means: `session`, or `instance/session`, where the beginning of an instance's name is
/// enough. Throws SessionNotFound, with what there is, and InvalidParams, with those it could be.
Task<Found> find_session(ClientSide& side, std::string address, std::string name);

}  // namespace rex::cli
