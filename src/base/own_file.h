// Files that decide what we do or hold a secret, read only where nobody but this user could have had a hand in them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rex {

enum class Trust {
  secret,   // nobody else may read it; this user's own, and no symbolic link
  settings  // nobody else may write it; root's is as good, and it may be a link to one
};

/// The directory of this user's that the environment names, for example by XDG_STATE_HOME, else the one below the home;
/// empty where there is no home.
std::string own_directory(const char* variable, std::string_view below_home);

/// The whole file. `what` names it in a refusal: "the token file". Throws NotPermitted for a file that others could
/// have changed (or, a secret, read) or that is no regular file; LimitExceeded beyond `max_bytes`; OsError.
std::string read_own_file(const std::string& path, std::string_view what, Trust trust, std::size_t max_bytes);

}  // namespace rex
