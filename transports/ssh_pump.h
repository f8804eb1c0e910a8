// Moves bytes between a channel and a socket, both ways, until one of them has ended. Must not know libssh.
#pragma once

#include "base/fd.h"
#include "transports/libssh.h"

namespace rex::transports {

/// Returns when the channel has been closed and all it brought is in `data` (a non-blocking socket), or when the other
/// end of `data` is gone. Each way has its own half-close. Fair: neither way waits for the other, whose bytes are held
/// to a bound: libssh's window and as much again towards `data`, 64 KiB from it.
void pump(Libssh& server, int data);

}  // namespace rex::transports
