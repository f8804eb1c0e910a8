// The thread of an SSH connection: it owns all of libssh's sessions of that connection and meets the loop through two
// sockets, one for what the command reads and writes and one to talk. The one file that knows libssh.
//
// libssh allows one thread a session and has no place for our loop. Its ready-made connector of channels and
// descriptors lost bulk data whenever it was tried, so the pump is our own.
#pragma once

#include "base/fd.h"
#include "transports/ssh.h"

namespace rex::transports {

/// What a thread is started with; all of it is the thread's own.
struct SshJob {
  SshTarget target;
  Fd talk;
  Fd data;
};

/// The thread's life: connects, says `open`, moves bytes until either side has ended, says `ended`. Whatever fails is
/// said as `failed`; nothing escapes. Ends within a moment of the loop's hanging up.
void run_ssh(SshJob job) noexcept;

}  // namespace rex::transports
