// A connected TCP socket as a transport that knows when its peer on this machine has gone.
#pragma once

#include <sys/socket.h>

#include <memory>

#include "base/fd.h"
#include "transports/transport.h"

namespace rex::transports {

/// Whether it is one of 127.0.0.0/8, or ::1.
bool is_on_loopback(const sockaddr_storage& address);

/// On TCP a peer that has closed its socket looks like one that has only ended its input: both send the same. Where
/// the peer is on this very machine, the kernel's table of sockets tells them apart; elsewhere gone() never is true.
std::unique_ptr<Transport> over_tcp(Executor executor, Fd socket);

}  // namespace rex::transports
