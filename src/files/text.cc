#include "files/text.h"

#include <optional>

#include "base/encoding.h"
#include "base/error.h"

namespace rex::files {

std::string decode(std::string_view data, Encoding encoding) {
  if (encoding == Encoding::utf8) {
    return std::string(data);
  }
  const bool base64 = encoding == Encoding::base64;
  auto bytes = base64 ? from_base64(data) : utf8_to_latin1(data);
  if (!bytes) {
    throw invalid_params("data", base64 ? "is not base64 (RFC 4648, with padding)" : "has characters above U+00FF");
  }
  return *std::move(bytes);
}

}  // namespace rex::files
