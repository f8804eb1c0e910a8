#include "hosts/token.h"

#include <algorithm>

#include "base/error.h"
#include "base/own_file.h"

namespace rex::hosts {
namespace {

constexpr std::size_t min_token_bytes = 16;  // less could be guessed
constexpr std::size_t max_token_bytes = 4096;

}  // namespace

std::string read_token(const std::string& path) {
  std::string token = read_own_file(path, "the token file", Trust::secret, max_token_bytes);
  token.erase(std::find_if(token.rbegin(), token.rend(), [](char c) { return c != '\n' && c != '\r'; }).base(),
              token.end());
  const bool printable_ascii = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (token.size() < min_token_bytes || !printable_ascii) {
    throw Error(Fault::InvalidParams, "the token file " + printable(path) + " has no token in it: one line of " +
                                          std::to_string(min_token_bytes) + " or more characters without spaces");
  }
  return token;
}

}  // namespace rex::hosts
