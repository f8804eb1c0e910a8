// The one coordinate of a session's output. Knows nothing else.
#pragma once

#include <cstdint>

namespace rex::shell {

/// The number of bytes written before this one, since the session (or one of its streams) began.
using Offset = std::uint64_t;

}  // namespace rex::shell
