// New content waiting beside a file to take its name. Internal to files/.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "files/entry.h"

namespace rex::files {

/// Complete and on disk once constructed; until take_name() the old file is untouched, and without it nothing remains,
/// not even after a crash where the file system knows O_TMPFILE. Used in this order: check, take_name, then finish or
/// give_back. The caller holds a DirectoryLock from check to take_name.
///
/// What replaces a file has its mode, owner, group, ACL and other extended attributes as far as we may set them; never
/// its setuid and setgid bits or file capabilities, which a write in place would drop too. Group bits that would open
/// it to another group are dropped. Another hard link to the old file keeps the old content.
class Replacement {
 public:
  /// `mode`: of a file that does not exist yet, as it is; else 0666 and the umask or the directory's default ACL.
  /// Throws OsError: EISDIR, EINVAL for no file, EACCES where the old file may not be written, ENOSPC, ...
  Replacement(Entry entry, std::string_view data, std::optional<mode_t> mode);
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement();

  [[nodiscard]] const Entry& entry() const { return entry_; }
  /// Throws Conflict.
  void check(const Condition& condition) const { check_condition(condition, entry_.status(), entry_.path); }
  /// One rename. `exclusive`: only if no file has the name. `keep_old`: so that give_back() can undo it.
  void take_name(bool exclusive, bool keep_old);
  void give_back();
  /// Makes the new name durable, drops what was kept, and tells what the file is now.
  struct ::stat finish();

 private:
  void create(std::optional<mode_t> mode);
  void write(std::string_view data);
  void copy_attributes(const struct ::stat& old);
  void copy_extended_attributes(int old);
  void link_temporary();
  bool rename_exclusively();
  [[nodiscard]] int dir() const { return entry_.directory.get(); }

  Entry entry_;
  Fd file_;
  std::string temporary_;  // its name while it has one of its own
  std::string kept_;       // the old file's other name
};

}  // namespace rex::files
