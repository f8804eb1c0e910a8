// Our own stdin and stdout as a transport, and transports over any other pair of descriptors.
// Must not know JSON or methods.
#pragma once

#include <memory>

#include "base/fd.h"
#include "transports/transport.h"

namespace rex::transports {

/// Opens /dev/null for those of 0, 1 and 2 that start closed: they would be handed to the next file that is opened,
/// which might be anybody's. To be called before anything opens one.
void occupy_standard_streams();

/// Takes the peer's stream away from descriptors 0 and 1, before anything can print into it: afterwards 0 is /dev/null
/// and 1 is a copy of stderr, so that a stray printf or a child never corrupts a frame. Descriptors 0, 1 and 2 may
/// start closed. Ignores SIGPIPE for the whole process. Call once, first thing, before other threads exist.
std::unique_ptr<Transport> take_over_stdio(Executor executor);

/// Reads our own standard input without making it non-blocking for whoever shares it, where the system lets us.
std::unique_ptr<Transport> standard_input(Executor executor);

/// A transport over descriptors that are already open; `in` and `out` may be two copies of one socket, never the same
/// number. Their open file descriptions become non-blocking. The caller sees to it that SIGPIPE is ignored.
std::unique_ptr<Transport> over_descriptors(Executor executor, Fd in, Fd out);

}  // namespace rex::transports
