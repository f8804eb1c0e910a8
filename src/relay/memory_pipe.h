// A pipe within this process. Must not know what its bytes are.
#pragma once

#include <memory>
#include <utility>

#include "transports/transport.h"

namespace rex::relay {

/// What one end is given the other reads, both ways, as through a pair of sockets: without their two copies.
std::pair<std::unique_ptr<Transport>, std::unique_ptr<Transport>> make_memory_pipe(Executor executor);

}  // namespace rex::relay
