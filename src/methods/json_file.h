// JSON that a person has written into a file: what is wrong with it is told by its line. Must not know what it says.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace rex::methods {

/// Throws InvalidParams "PATH:LINE: …"; `path` is the file's, `text` what is in it.
nlohmann::json parse_json_file(const std::string& path, const std::string& text);

/// An error about a member, whose message begins with the way to it ("hosts.gpu.argv[1]: …"), with the file and the
/// line in front.
Error with_line(const std::string& path, const std::string& text, const Error& error);

}  // namespace rex::methods
