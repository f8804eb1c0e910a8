// Whether a host key is the one the user knows the host by. Fails closed: what is not known is asked about or refused,
// what has changed or was revoked is refused. Must not know libssh.
#pragma once

#include <string>

#include "transports/libssh.h"
#include "transports/ssh_config.h"
#include "transports/ssh_talk.h"

namespace rex::transports {

/// The first line ("FILE:LINE") that puts the host under a certificate authority; empty where none does.
std::string certificate_authority_of(const SshConfig& config);

/// Returns when `key` is known, or when the person has said yes: then it is known from now on. Throws HostKeyRejected
/// {fingerprint, detail}, with the known key's fingerprint in the detail where there is one.
void check_host_key(const SshConfig& config, const SshPublicKey& key, Conversation& person);

}  // namespace rex::transports
