// Finding the instances of this user by their sockets in the runtime directory, and sessions by `[instance/]session`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/client.h"

namespace rex::cli {

/// How long an instance may take to list its sessions before it counts as one that does not answer.
inline constexpr Milliseconds instance_patience{2000};

struct Instance {
  std::string name;
  Client client;            // null when it could not be reached; `problem` says why, unless its sessions are lost
  nlohmann::json sessions;  // an array of SessionInfo
  std::string problem;
};

struct Dialled {
  Client client;
  nlohmann::json greeting;  // what `initialize` gave; null where that is left to the user
};

/// Connects to `unix:PATH`, to `tcp:HOST:PORT` with the token, or to the instance of this name or the only one whose
/// name begins so, and greets it. Throws.
Task<Dialled> dial(ClientSide& side, Where where);

/// Every living instance with its sessions; those of dead ones lose their sockets. With an address, only that one.
Task<std::vector<Instance>> look_around(ClientSide& side, Where where);

struct Found {
  Client client;  // null for a session that is lost
  std::string instance;
  nlohmann::json info;

  [[nodiscard]] std::string session() const { return info["session"].get<std::string>(); }
  [[nodiscard]] std::string full_name() const { return instance + "/" + session(); }
};

/// The one session that `name` means: `session`, or `instance/session`, where the beginning of an instance's name is
/// enough. Throws SessionNotFound, with what there is, InvalidParams, with those it could be, and SessionEnded for one
/// that is lost, unless that `may_be_lost`.
Task<Found> find_session(ClientSide& side, Where where, std::string name, bool may_be_lost = false);

}  // namespace rex::cli
