// Operations on names: make, remove, rename, link, resolve, and a file's attributes. Reads and writes no content.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include "files/stat.h"

namespace rex::files {

/// `parents`: missing ones are made too, and a directory that exists already is fine. Throws OsError.
void mkdir(const std::string& path, bool parents = false);

/// The directories above the last name of `path`, where missing.
void make_parents(const std::string& path);

/// Takes away a file, a link (never what it leads to), an empty directory, or with `recursive` a whole tree, in steps
/// so that the caller can let others run or stop in between.
///
/// Goes down by open directories only: a directory swapped for a link while it works is not followed. Stays on one
/// mount: a mount point anywhere is EBUSY, its contents untouched. "/" and paths that end in "." or ".." are
/// InvalidParams. The first error ends it; what was removed by then stays removed (`executed: unknown`).
class Removal {
 public:
  Removal(const std::string& path, bool recursive);
  ~Removal();
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;

  /// Removes up to `entries` entries (more than 0). True when all is done. Throws OsError.
  bool step(std::size_t entries);

 private:
  class Walk;
  std::unique_ptr<Walk> walk_;
};

/// All steps at once.
void remove(const std::string& path, bool recursive = false);

/// Within one file system: another one is EXDEV, as the kernel says it. Without `overwrite` an existing `to` is EEXIST
/// (atomic, except for directories on file systems without RENAME_NOREPLACE, where it is checked first).
void rename(const std::string& from, const std::string& to, bool overwrite = false);

/// Makes `path` a symbolic link to `target`, which need not exist. Throws OsError.
void symlink(const std::string& path, const std::string& target);

/// The absolute path without links, "." and "..". All of it must exist. Throws OsError.
std::string realpath(const std::string& path);

struct Attributes {
  std::optional<std::uint32_t> mode = {};  // 0 to 07777
  std::optional<timespec> mtime = {};
  std::optional<std::uint32_t> uid = {};
  std::optional<std::uint32_t> gid = {};
};

/// Of what `path` leads to: a final symbolic link is followed. Owner first, then mode, then mtime, as a change of
/// owner clears setuid. A time the file system cannot hold (ext4 ends in 2446) is OsError ERANGE, not its limit;
/// a coarser clock (2 s of FAT) is accepted. When a later one fails, `executed` is unknown.
Stat setattr(const std::string& path, const Attributes& attributes);

}  // namespace rex::files
