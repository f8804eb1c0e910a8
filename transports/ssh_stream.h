// The stream of an SSH connection whose command has been started: libssh as a Transport, on the loop. No thread stands
// between, whose waking would cost more than what it does. Must not know how the connection was made.
#pragma once

#include <memory>

#include "transports/ssh_session.h"

namespace rex::transports {

/// Gives `reached` its transport and its last words, which hold the route.
void open_ssh_stream(Executor executor, std::unique_ptr<SshRoute> route, SshReached& reached);

}  // namespace rex::transports
