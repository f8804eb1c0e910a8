// Who listens on a TCP port, as /proc tells it. Knows no session.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace rex::shell {

/// Whether one of `pids` holds a socket that listens on `port`, over IPv4 or IPv6, in its own network namespace. A
/// process whose descriptors we may not see (another user's) counts as none.
bool listens_on(const std::vector<pid_t>& pids, std::uint16_t port);

}  // namespace rex::shell
