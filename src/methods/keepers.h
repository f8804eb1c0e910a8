// Sessions that other processes of this user keep (`lifetime: "daemon"`): found by the sockets of those processes in
// the lasting directory, and reached through the relay as hosts without a name. Must not know how such a process is
// started.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "methods/session_records.h"
#include "relay/hosts.h"
#include "relay/router.h"
#include "shell/sessions.h"

namespace rex::methods {

/// The socket of the process that keeps the session of this name, in the lasting directory.
std::string keeper_socket(std::string_view session);

/// Whether a process listens at this one, or is too busy to be asked; what a dead one left is removed.
bool has_keeper(Executor executor, const std::string& socket);

/// What such sockets begin with; to people it is the instance whose sessions they are: `daemon/main`.
inline constexpr std::string_view keeper_prefix = "daemon-";

class Keepers final : public relay::Elsewhere {
 public:
  /// Returns once the process for a session of this name listens, or another one that was faster. Throws StartFailed.
  using Start = std::function<Task<>(std::string session)>;

  /// What is passed by reference must outlive it.
  Keepers(Executor executor, relay::Hosts& hosts, const shell::Sessions& sessions, Workers& workers, Start start);

  [[nodiscard]] bool concerns(std::string_view method, const nlohmann::json& params) const override;
  /// Starts the process where the request is a create. Throws SessionExists, SessionNotFound, StartFailed.
  Task<Place> find(std::string method, nlohmann::json params) override;

  /// How an unnamed host is reached; nullopt when it is gone.
  [[nodiscard]] static std::optional<relay::Known> known(const std::string& host);

  struct Listed {
    nlohmann::json sessions = nlohmann::json::array();  // of SessionInfo
    std::string problem;                                // who did not answer; empty where all did
  };
  /// What all of them keep, and kept: sessions that are lost.
  Task<Listed> list(rpc::Call& call);
  /// The session that was lost with the process of this socket, if one was.
  Task<std::optional<wire::SessionInfo>> recorded(std::string socket);
  /// Of sessions whose process is gone; what `find` sends here is about one of them.
  [[nodiscard]] const SessionRecords& records() const { return records_; }

 private:
  struct Asked;
  Task<> ask(std::shared_ptr<Asked> asked, std::string socket);
  [[nodiscard]] bool is_linked(const std::string& socket) const;
  [[nodiscard]] bool is_reachable(const std::string& socket) const;
  [[nodiscard]] bool is_there(const std::string& socket) const;
  Task<Place> place_for_new(nlohmann::json params);

  Executor executor_;
  relay::Hosts& hosts_;
  const shell::Sessions& sessions_;
  Workers& workers_;
  Start start_;
  SessionRecords records_;
};

/// The records of sessions that have their sockets in the lasting directory.
SessionRecords records_of_lasting();

/// SessionEnded: it is lost, and why.
Error lost_session(const wire::SessionInfo& info);

}  // namespace rex::methods
