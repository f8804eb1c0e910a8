// Bytes and the two texts they travel as: UTF-8 and base64.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rex {

/// Whether `bytes` is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
bool is_utf8(std::string_view bytes);

/// How many bytes at the end of `bytes` are the beginning of a UTF-8 sequence that is not complete yet (0 to 3).
std::size_t incomplete_utf8_tail(std::string_view bytes);

std::string to_base64(std::string_view bytes);

/// Strict RFC 4648 base64 with padding; nullopt for anything else.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace rex
