// Proves to a server who the user is, in the order ssh does it: keys of the agent, keys of files, questions, password.
// One attempt a connection: no method is begun anew on a second one. Must not know libssh.
#pragma once

#include <string>

#include "transports/libssh.h"
#include "transports/ssh_talk.h"

namespace rex::transports {

/// Returns what it took, in words ("key ~/.ssh/id_ed25519, keyboard-interactive"). Throws HostUnreachable {phase auth}.
std::string authenticate(Libssh& server, const SshConfig& config, Conversation& person);

}  // namespace rex::transports
