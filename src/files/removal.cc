// Removal of trees (tree.h). Knows directories by open descriptors, never by path: paths are for messages only.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "files/entry.h"
#include "files/tree.h"

namespace rex::files {
namespace {

/// Which mount an open directory is on; bind mounts of one device differ in the second number.
struct Mount {
  std::uint64_t device;
  std::uint64_t id;
  bool operator==(const Mount&) const = default;
};

struct Identity {
  Mount mount;
  std::uint64_t inode;
  bool operator==(const Identity&) const = default;
};

std::optional<Identity> identify(int directory) {
  struct statx status{};
  if (::statx(directory, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &status) != 0) {
    return std::nullopt;
  }
  const std::uint64_t device = std::uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor;
  const bool knows_mounts = (status.stx_mask & STATX_MNT_ID) != 0;  // Linux 5.8
  return Identity{{device, knows_mounts ? status.stx_mnt_id : 0}, status.stx_ino};
}

Fd open_child(int directory, const std::string& name) {
  return Fd(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

/// One directory is open at a time, so that depth costs no descriptors; the way back is "..", if it still leads there.
class Removal::Walk {
 public:
  Walk(const std::string& path, bool recursive) : recursive_(recursive) {
    check_path("path", path);
    SplitPath split = split_path(path);
    if (split.name.empty() || split.name == "." || split.name == "..") {
      throw invalid_params("path", "names the root, or ends in a dot name; these are not removed");
    }
    path_ = split.directory == "." ? "" : split.directory;
    name_ = std::move(split.name);
    here_.reset(::open(split.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!here_) {
      throw os_error("cannot remove", errno, path);
    }
    must_be_directory_ = split.trailing_slash;
  }

  bool step(std::size_t budget) {
    try {
      return work(budget);
    } catch (Error& error) {
      if (removed_any_) {
        throw std::move(error).executed(Executed::unknown);
      }
      throw;
    }
  }

 private:
  struct Level {
    std::string name;                      // in the directory above
    Identity above;                        // to know it again on the way back
    std::vector<std::string> directories;  // still to be removed
    int scans = 0;
    bool scanned = false;
  };

  bool work(std::size_t budget) {
    if (levels_.empty()) {
      begin();
    }
    while (!done_ && budget > 0) {
      Level& level = levels_.back();
      if (!level.scanned) {
        budget -= remove_files(budget);
      } else if (!level.directories.empty()) {
        const std::string name = std::move(level.directories.back());
        level.directories.pop_back();
        descend(name);
      } else {
        ascend();
        --budget;
      }
    }
    return done_;
  }

  /// Removes what is no directory at once; else goes down into it.
  void begin() {
    struct ::stat status{};
    if (::fstatat(here_.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      throw os_error("cannot remove", errno, path_of(name_));
    }
    const bool directory = S_ISDIR(status.st_mode);
    if (!directory && must_be_directory_) {
      throw os_error("cannot remove", ENOTDIR, path_of(name_));
    }
    if (directory && recursive_) {
      descend(name_);
      return;
    }
    if (::unlinkat(here_.get(), name_.c_str(), directory ? AT_REMOVEDIR : 0) != 0) {
      throw os_error("cannot remove", errno, path_of(name_));
    }
    done_ = true;
  }

  void descend(const std::string& name) {
    Fd child = open_child(here_.get(), name);
    const auto above = child ? identify(here_.get()) : std::nullopt;
    const auto below = child ? identify(child.get()) : std::nullopt;
    if (!above || !below) {
      throw os_error("cannot open", errno, path_of(name));
    }
    if (below->mount != above->mount) {
      throw os_error("cannot remove the mount point", EBUSY, path_of(name));
    }
    levels_.push_back({name, *above, {}, 0, false});
    path_ += (path_.empty() || path_.ends_with('/') ? "" : "/") + name;
    here_ = std::move(child);
  }

  /// Unlinks up to `budget` files of this directory and notes its directories. Says how many it met, at least one.
  std::size_t remove_files(std::size_t budget) {
    Level& level = levels_.back();
    Fd copy = open_child(here_.get(), ".");  // a position of its own, from the start: what is gone is not met again
    DIR* stream = copy ? ::fdopendir(copy.get()) : nullptr;
    if (stream == nullptr) {
      throw os_error("cannot list", errno, path_);
    }
    std::ignore = copy.release();
    const std::unique_ptr<DIR, int (*)(DIR*)> close(stream, &::closedir);
    level.directories.clear();
    std::size_t removed = 0;
    while (removed < budget) {
      errno = 0;
      const dirent* entry = ::readdir(stream);
      if (entry == nullptr) {
        if (errno != 0) {
          throw os_error("cannot list", errno, path_);
        }
        level.scanned = true;
        break;
      }
      const std::string name = entry->d_name;
      if (name == "." || name == "..") {
        continue;
      }
      if (entry->d_type != DT_DIR && ::unlinkat(here_.get(), name.c_str(), 0) == 0) {
        removed_any_ = true;
        ++removed;
      } else if (entry->d_type == DT_DIR || errno == EISDIR) {
        level.directories.push_back(name);
      } else if (errno != ENOENT) {
        throw os_error("cannot remove", errno, path_of(name));
      }
    }
    return std::max<std::size_t>(removed, 1);
  }

  void ascend() {
    const Level& level = levels_.back();
    Fd above(::openat(here_.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!above || identify(above.get()) != level.above) {
      throw os_error("was moved while being removed:", EBUSY, path_);
    }
    if (::unlinkat(above.get(), level.name.c_str(), AT_REMOVEDIR) != 0) {
      constexpr int most_scans = 10;  // somebody creates entries as fast as we remove them
      if (errno == ENOTEMPTY && levels_.back().scans < most_scans) {
        ++levels_.back().scans;
        levels_.back().scanned = false;
        return;
      }
      if (errno != ENOENT) {
        throw os_error("cannot remove", errno, path_);
      }
    }
    removed_any_ = true;
    path_.resize(path_.size() - std::min(path_.size(), level.name.size() + (levels_.size() > 1 ? 1 : 0)));
    levels_.pop_back();
    here_ = std::move(above);
    done_ = levels_.empty();
  }

  [[nodiscard]] std::string path_of(const std::string& name) const {
    return path_ + (path_.empty() || path_.ends_with('/') ? "" : "/") + name;
  }

  const bool recursive_;
  bool must_be_directory_ = false;
  bool done_ = false;
  bool removed_any_ = false;
  std::string path_;  // of here_, as the client wrote it
  std::string name_;
  Fd here_;
  std::vector<Level> levels_;  // from the top down to here_; empty: here_ is the parent
};

Removal::Removal(const std::string& path, bool recursive) : walk_(std::make_unique<Walk>(path, recursive)) {}

Removal::~Removal() = default;

bool Removal::step(std::size_t entries) { return walk_->step(entries); }

void remove(const std::string& path, bool recursive) {
  Removal removal(path, recursive);
  while (!removal.step(std::numeric_limits<std::size_t>::max())) {
  }
}

}  // namespace rex::files
