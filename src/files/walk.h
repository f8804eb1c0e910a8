// The files of a tree, one after the other. Internal to files/: knows what is passed over, not what is sought.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "files/stat.h"

namespace rex::files {

/// What a walk met besides files. Paths are relative to its root.
struct WalkReport {
  std::int64_t skipped = 0;  // directories that were not entered
  std::function<void(const std::string& path, int error)> unreadable;
};

/// One directory is open at a time; those still to be entered are known by name, a level at a time. Follows no symbolic
/// link. Does not enter .git, .hg, .svn and .jj, nor the kernel's own file systems unless it begins in one. What is
/// gone when its turn comes is passed over.
class Walk {
 public:
  struct Found {
    std::string path;  // relative to the root
    Type type;         // no directory
    int directory;     // open until the next step
    std::string name;  // in it
  };

  /// `enter`: whether a directory may hold what is sought. `report` must outlive it. Throws OsError.
  Walk(const std::string& root, std::function<bool(const std::string& path)> enter, WalkReport& report);

  /// Nullopt where this step found none yet, or all is done.
  std::optional<Found> step();
  [[nodiscard]] bool done() const { return !directory_ && levels_.empty(); }

 private:
  struct Named {
    std::string name;
    Type type;
  };
  struct Level {
    std::string prefix;              // of the names, relative to the root: "" or ending in a slash
    std::vector<std::string> names;  // to be entered, the last one first
  };
  struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };

  void use(Fd directory, std::string path);
  void read_batch();
  void sort_in(const dirent& entry);
  void leave();
  void enter_next();
  void fail(const std::string& path, int error);

  Fd root_;
  dev_t device_ = 0;
  bool begins_in_kernels_ = false;
  std::function<bool(const std::string&)> enter_;
  WalkReport& report_;
  std::vector<Level> levels_;

  std::unique_ptr<DIR, CloseDirectory> directory_;
  std::string here_;  // its path relative to the root: "" or ending in a slash
  bool ended_ = false;
  std::vector<Named> batch_;  // of what is no directory in it
  std::size_t next_ = 0;
  std::vector<std::string> directories_;
};

}  // namespace rex::files
