#include "relay/inbox.h"

#include <strings.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/secret.h"

namespace rex::relay {
namespace {

constexpr std::size_t smallest = 4096;
// Capacity that an empty one may keep.
constexpr std::size_t kept = 256u << 10;

}  // namespace

Inbox::~Inbox() { wipe(bytes_); }

void Inbox::append(std::string_view bytes) {
  if (bytes_.size() + bytes.size() > bytes_.capacity()) {
    make_room(bytes.size());
  }
  bytes_ += bytes;
}

std::size_t Inbox::take(std::span<char> into) {
  const std::size_t n = std::min(into.size(), size());
  std::memcpy(into.data(), bytes_.data() + taken_, n);
  explicit_bzero(bytes_.data() + taken_, n);
  taken_ += n;
  if (empty()) {
    bytes_.clear();
    taken_ = 0;
    if (bytes_.capacity() > kept) {
      bytes_.shrink_to_fit();
    }
  }
  return n;
}

/// Moves no more than has been read or is to come, so that each byte is moved a few times at most.
void Inbox::make_room(std::size_t bytes) {
  const std::size_t waiting = size();
  if (waiting <= taken_ && waiting + bytes <= bytes_.capacity()) {
    std::memcpy(bytes_.data(), bytes_.data() + taken_, waiting);
    explicit_bzero(bytes_.data() + taken_, waiting);
    bytes_.resize(waiting);
  } else {
    std::string moved;
    moved.reserve(std::max(2 * (waiting + bytes), smallest));
    moved.append(bytes_, taken_);
    wipe(bytes_);
    bytes_ = std::move(moved);
  }
  taken_ = 0;
}

}  // namespace rex::relay
