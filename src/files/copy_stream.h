// How a tree travels as bytes: records, each with its kind and length. Where a copy goes on with an earlier one, the
// other way goes first what is there already: a `file` each, with its `size`, the hash in `text`, and `offset` = `size`
// where it is only the beginning of one; then `done`. Does no I/O. Internal to files/.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/digest.h"

namespace rex::files {

inline constexpr std::size_t max_copy_bytes = 256 << 10;  // of a file, in one record
inline constexpr std::int64_t max_hole_bytes = 64 << 20;  // in one record: its zeros are hashed like other bytes

/// What a record says; which members count is the kind's.
struct CopyRecord {
  enum class Kind : char {
    directory = 'd',
    file = 'f',  // its content follows, from `offset` on
    link = 'l',
    skipped = 's',  // what cannot be copied: a FIFO, a socket, a device
    bytes = 'b',    // the next of a file
    hole = 'h',     // `size` bytes of zeros that take no room
    end = 'e',      // of a file; `text` is the SHA-256 of its content
    done = 'z',
  };
  Kind kind = Kind::done;
  std::string path = {};  // relative to what is copied; "" is that itself
  std::uint32_t mode = 0;
  timespec mtime{};
  std::int64_t size = 0;
  std::int64_t offset = 0;
  std::string text = {};  // a link's target, a file's hash
  std::string_view bytes = {};
};

void append(std::string& stream, const CopyRecord& record);

/// Adds a record of bytes: those that `read` puts into the place that it is given, and says how many. Returns them, as
/// long as the stream stays as it is. None at all where it puts none, or throws.
std::string_view append_bytes(std::string& stream, std::size_t most,
                              const std::function<std::size_t(std::span<char> place)>& read);

/// Puts records together from pieces of any size.
class CopyReader {
 public:
  void feed(std::string_view bytes);
  /// Nullopt where more is needed. Throws HostProtocol for what is no stream of ours, and for a path that leads
  /// elsewhere. The record's `bytes` are there until more is fed.
  std::optional<CopyRecord> next();

 private:
  std::string buffer_;     // less than a record, once next() has said nullopt
  std::size_t taken_ = 0;  // of it
};

/// Adds so many zeros.
void hash_zeros(Sha256& hash, std::int64_t size);

}  // namespace rex::files
