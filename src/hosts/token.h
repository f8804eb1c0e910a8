// The secret that an instance on TCP wants to be shown, from its file. Must not know who asks for it, or JSON.
#pragma once

#include <string>

namespace rex::hosts {

/// What is in the file, without the end of its line. Throws NotPermitted for a file that is not this user's alone, a
/// symbolic link or no regular file; InvalidParams for what is no token; OsError.
std::string read_token(const std::string& path);

}  // namespace rex::hosts
