// `file/write`: the whole file at once, or more at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "files/stat.h"

namespace rex::files {

struct WriteOptions {
  std::string path = {};
  std::string data = {};                   // bytes; decode() makes them from the wire's text
  std::optional<std::uint32_t> mode = {};  // of a new file, exactly; 0 to 01777, else 0666 less the umask
  bool append = false;
  bool parents = true;  // make missing directories
  std::optional<std::string> if_match = {};
  bool if_absent = false;
};

struct WriteResult {
  Stat stat;
  bool created = false;
};

/// Follows a final symbolic link and keeps it. Durable when it returns. What a replaced file keeps: Replacement.
///
/// Without `append` it is atomic: a reader, a crash and any error find the old file or the new one. A file that is a
/// mount point of its own (containers have such) cannot be replaced: EBUSY.
/// With `append` the bytes go to the end of the existing file in place (O_APPEND: no other writer's are overwritten);
/// where not all of them could be written, those that were are cut off again.
///
/// Conditions hold against every other rex-rpc on the machine; a program that knows nothing of them can still come in
/// between the check and the rename, which follow each other at once.
/// Throws Conflict `{etag}`, OsError, InvalidParams. Made directories stay when the write fails.
WriteResult write(const WriteOptions& options);

}  // namespace rex::files
