// The version of this program.
#pragma once

#include <string_view>

namespace rex::methods {

inline constexpr std::string_view version = REX_RPC_VERSION;

}  // namespace rex::methods
