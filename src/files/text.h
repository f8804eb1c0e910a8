// The texts in which a file's bytes travel. Knows nothing of files.
#pragma once

#include <string>
#include <string_view>

namespace rex::files {

enum class Encoding { utf8, base64, latin1 };

/// The bytes that `data` stands for. InvalidParams on member `data` where it is no text of this encoding.
std::string decode(std::string_view data, Encoding encoding);

}  // namespace rex::files
