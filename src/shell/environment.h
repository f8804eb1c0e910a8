// The environment a program starts with: ours or none, a profile's, then the caller's wishes. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shell/session_types.h"

namespace rex::shell {

/// `NAME=value` strings. `changes`: a value sets, nullopt unsets. Variables REX_RPC_* are ours and are not passed on.
std::vector<std::string> make_environment(bool clear, const std::map<std::string, std::optional<std::string>>& changes,
                                          std::optional<Profile> profile);

/// The value of a variable in such a list; empty when it is not there.
std::string variable(const std::vector<std::string>& environment, const std::string& name);

}  // namespace rex::shell
