// Bytes and the texts they travel as: UTF-8, Latin-1 and base64. Pure functions; knows nothing of files or messages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rex {

/// Whether `bytes` is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
bool is_utf8(std::string_view bytes);

/// Where the first byte stands that does not belong to a well-formed UTF-8 sequence; `bytes.size()` when all do.
std::size_t first_invalid_utf8(std::string_view bytes);

/// The length of the well-formed UTF-8 sequence that `bytes` begins with (1 to 4), or 0 when there is none.
std::size_t utf8_sequence(std::string_view bytes);

/// How many bytes at the end of `bytes` are the beginning of a UTF-8 sequence that is not complete yet (0 to 3).
std::size_t incomplete_utf8_tail(std::string_view bytes);

/// How many bytes at the beginning of `bytes` are the rest of a UTF-8 sequence that was cut before them.
std::size_t cut_utf8_head(std::string_view bytes);

/// `bytes` with each maximal part that cannot begin a character replaced by U+FFFD, as Unicode and the web do it.
std::string replace_invalid_utf8(std::string_view bytes);

/// Each byte as the character of the same number; the inverse is nullopt where `text` is no UTF-8 or has a character
/// above U+00FF.
std::string latin1_to_utf8(std::string_view bytes);
std::optional<std::string> utf8_to_latin1(std::string_view text);

std::string to_base64(std::string_view bytes);

/// Strict RFC 4648 base64: padded, nothing between the digits, unused bits zero; nullopt for anything else.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace rex
