// `file/read`: exact bytes of a regular file, by range or by lines, as a text that can carry them. Never waits for a
// FIFO, a terminal or a device; never maps memory, so a file that shrinks meanwhile is harmless.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/entry.h"
#include "files/text.h"

namespace rex::files {

inline constexpr std::int64_t max_read_bytes = 8 << 20;           // `read.maxBytes`, of one call
inline constexpr std::int64_t max_line_scan_bytes = 256LL << 20;  // `read.lineScanBytes`, to find lines by number

struct Lines {
  std::int64_t first;  // the first line of a file is 1
  std::int64_t last;   // inclusive; may lie beyond the end
};

/// What to do with bytes that are no UTF-8.
enum class Errors { strict, replace };

struct ReadOptions {
  std::string path = {};
  std::int64_t offset = 0;
  std::optional<std::int64_t> length = {};  // else to the end
  std::optional<Lines> lines = {};          // instead of offset and length
  Encoding encoding = Encoding::utf8;
  Errors errors = Errors::strict;
};

struct ReadResult {
  std::string data;  // in the encoding asked for
  std::int64_t from = 0;
  std::int64_t next = 0;  // after the last byte that `data` stands for
  std::int64_t size = 0;  // of the file; where the end was reached, the end (files of /proc do not know their size)
  std::string etag;
};

/// Lines keep their ends, whatever these are; a last line without "\n" is a line.
/// In UTF-8 a range that ends inside a character stops before it (`next` says so).
/// A whole file that is changed during each of three attempts is a Conflict `{etag}`. (A single long write(2) that had
/// begun before and went on all the time cannot be told: its half-done state is what the file then holds.) Other reads
/// take their etag before their bytes, so that a later `ifMatch` notices.
/// Throws OsError (EISDIR; EINVAL for what is no file; EILSEQ with `offset` for strict UTF-8), InvalidParams,
/// LimitExceeded.
ReadResult read(const ReadOptions& options);

/// The bytes of a whole file of at most `max` bytes, as read() does it, with its status then. `limit` names the bound.
struct Content {
  std::string bytes;
  struct ::stat status;
};
Content read_whole(int directory, const std::string& name, const std::string& path, int flags, std::string_view limit,
                   std::int64_t max);

}  // namespace rex::files
