// How many terminal columns a character takes. A table of our own: wcwidth(3) answers for the locale of the process,
// and the same bytes must give the same text on every host.
#pragma once

#include <cstddef>
#include <string_view>

namespace rex::shell {

/// 0 for marks that join the character before them, 2 for East Asian wide characters and emoji, else 1.
/// Control codes are not asked for.
std::size_t char_width(char32_t character);

/// The code point that a well-formed UTF-8 sequence of 1 to 4 bytes encodes.
char32_t decode_utf8(std::string_view sequence);

}  // namespace rex::shell
