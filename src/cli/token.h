// The secret that lets clients in on TCP, in a file of this user's alone. Must not know sockets or JSON.
#pragma once

#include <string>

namespace rex::cli {

/// The file that both ends take where none is named: `token` in the runtime directory.
std::string default_token_file();

/// Makes the file, with mode 0600 and a random token, if there is none; then checks it as hosts::read_token does.
void ensure_token(const std::string& path);

}  // namespace rex::cli
