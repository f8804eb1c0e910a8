// A name in a directory that is held open, and the careful ways to get at it. Internal to files/.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

namespace rex::files {

/// InvalidParams for an empty path and one with a NUL; the kernel judges the rest.
void check_path(std::string_view member, std::string_view path);

/// Where a symbolic link says it leads; nullopt where `name` is none, or is gone.
std::optional<std::string> read_link(int directory, const std::string& name);

/// `path` without its trailing slashes, split before its last name. "/" has the name "".
struct SplitPath {
  std::string directory;  // "." when there is none
  std::string name;
  bool trailing_slash;
};
SplitPath split_path(std::string_view path);

/// A directory below `root`, never through a symbolic link where the kernel can promise that (Linux 5.6). Empty with
/// errno where it cannot be opened.
Fd open_below(int root, const std::string& path);

/// A directory entry, existing or not, that is no symbolic link. Renaming a parent no longer changes which one it is.
struct Entry {
  Fd directory;
  bool directory_readable;  // else it is only a place (O_PATH): it cannot be locked or synced
  std::string name;
  std::string path;  // as the client wrote it, for messages

  /// nullopt when it does not exist. Throws OsError.
  [[nodiscard]] std::optional<struct ::stat> status() const;
};

/// Follows the links at the end of `path` to the entry they name, as open(2) does. Throws OsError; EISDIR where the
/// path can only be a directory's.
Entry locate(const std::string& path);

/// Throws EISDIR, or EINVAL for a FIFO, a device or a socket, which may block or do something when opened.
void require_regular(const struct ::stat& status, std::string_view what, std::string_view path);
/// The same for what a file or link is to take the place of, which rename(2) lets it: a file or a link, but no device.
/// A directory sees to itself.
void require_replaceable(int directory, const std::string& name, std::string_view path);

/// Opens a regular file for reading, never blocking on what turns out to be something else. Throws OsError.
struct OpenFile {
  Fd fd;
  struct ::stat status;
};
OpenFile open_regular(int directory, const std::string& name, std::string_view path, int flags = 0);

/// What must hold for a write to happen.
struct Condition {
  std::optional<std::string> if_match = {};  // the etag it must have
  bool if_absent = false;
};

/// Throws Conflict `{etag}` unless `condition` holds of `status`; the etag of what does not exist is "".
void check_condition(const Condition& condition, const std::optional<struct ::stat>& status, std::string_view path);

/// Keeps other instances from replacing files in a directory between a check and the rename that relies on it. Held
/// for microseconds. Advisory: other programs are not kept out. Where a file system has no such lock, there is none.
class DirectoryLock {
 public:
  /// Waits up to 250 ms for it. Throws OsError EWOULDBLOCK.
  explicit DirectoryLock(const Entry& entry);

 private:
  Fd fd_;  // of its own: the lock ends with it
};

}  // namespace rex::files
