// Clients on TCP that have not shown the token yet: few at a time, and not for long. Must not know the token.
#pragma once

#include <deque>
#include <memory>

#include "rpc/connection.h"

namespace rex::cli {

/// Strangers of one instance at a time.
inline constexpr std::size_t max_strangers = 64;

/// Passive but for one wait a stranger: whoever accepts a client tells of it.
class Strangers {
 public:
  /// Ends the connection if it has not become a known client's in time. One more than max_strangers ends the oldest:
  /// a crowd that says nothing, or wrong things, never keeps out who comes with the token.
  void watch(const std::shared_ptr<rpc::Connection>& stranger);

 private:
  std::deque<std::weak_ptr<rpc::Connection>> waiting_;  // by age
};

}  // namespace rex::cli
