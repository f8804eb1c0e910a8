#include "files/walk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "files/entry.h"

namespace rex::files {
namespace {

constexpr std::size_t max_batch = 100'000;  // entries of a directory in memory, and in order, at once

bool is_version_control(std::string_view name) {
  return name == ".git" || name == ".hg" || name == ".svn" || name == ".jj";
}

/// File systems that are the kernel speaking.
bool is_kernels(int directory) {
  struct statfs status{};
  if (::fstatfs(directory, &status) != 0) {
    return false;
  }
  switch (static_cast<std::uint32_t>(status.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case BPF_FS_MAGIC:
    case PSTOREFS_MAGIC:
    case EFIVARFS_MAGIC: return true;
    default: return false;
  }
}

Type type_of(int directory, const dirent& entry) {
  switch (entry.d_type) {
    case DT_REG: return Type::file;
    case DT_DIR: return Type::directory;
    case DT_LNK: return Type::symlink;
    case DT_FIFO: return Type::fifo;
    case DT_SOCK: return Type::socket;
    case DT_CHR: return Type::charDevice;
    case DT_BLK: return Type::blockDevice;
    default: break;
  }
  struct ::stat status{};
  // What is gone already is said to be a file, whose opening will tell.
  const bool known = ::fstatat(directory, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0;
  return known ? to_stat(status).type : Type::file;
}

}  // namespace

Walk::Walk(const std::string& root, std::function<bool(const std::string&)> enter, WalkReport& report)
    : root_(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC)),
      enter_(std::move(enter)),
      report_(report) {
  Fd first(root_ ? ::fcntl(root_.get(), F_DUPFD_CLOEXEC, 0) : -1);
  struct ::stat status{};
  if (!first || ::fstat(first.get(), &status) != 0) {
    throw os_error("cannot search", errno, root);
  }
  device_ = status.st_dev;
  begins_in_kernels_ = is_kernels(first.get());
  use(std::move(first), "");
}

std::optional<Walk::Found> Walk::step() {
  if (directory_ && next_ == batch_.size()) {
    if (ended_) {
      leave();
    } else {
      read_batch();
    }
  } else if (!directory_) {
    enter_next();
  } else {
    Named& named = batch_[next_++];
    return Found{here_ + named.name, named.type, ::dirfd(directory_.get()), std::move(named.name)};
  }
  return std::nullopt;
}

void Walk::use(Fd directory, std::string path) {
  here_ = std::move(path);
  batch_.clear();
  next_ = 0;
  ended_ = false;
  directory_.reset(::fdopendir(directory.get()));
  if (directory_) {
    static_cast<void>(directory.release());
  } else {
    fail(here_, errno);
  }
}

void Walk::read_batch() {
  batch_.clear();
  next_ = 0;
  while (!ended_ && batch_.size() < max_batch) {
    errno = 0;
    const dirent* entry = ::readdir(directory_.get());
    ended_ = entry == nullptr;
    if (entry != nullptr) {
      sort_in(*entry);
    } else if (errno != 0) {
      fail(here_, errno);
    }
  }
  std::sort(batch_.begin(), batch_.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
}

void Walk::sort_in(const dirent& entry) {
  std::string name = entry.d_name;
  if (name == "." || name == "..") {
    return;
  }
  const Type type = type_of(::dirfd(directory_.get()), entry);
  if (type != Type::directory) {
    batch_.push_back({std::move(name), type});
  } else if (is_version_control(name)) {
    ++report_.skipped;
  } else if (enter_(here_ + name)) {
    directories_.push_back(std::move(name));
  }
}

void Walk::leave() {
  directory_.reset();
  if (!directories_.empty()) {
    std::sort(directories_.begin(), directories_.end(), std::greater<>());
    levels_.push_back({here_, std::exchange(directories_, {})});
  }
}

void Walk::enter_next() {
  if (levels_.empty()) {
    return;
  }
  Level& level = levels_.back();
  const std::string path = level.prefix + level.names.back();
  level.names.pop_back();
  if (level.names.empty()) {
    levels_.pop_back();
  }
  Fd directory = open_below(root_.get(), path);
  struct ::stat status{};
  if (!directory || ::fstat(directory.get(), &status) != 0) {
    fail(path, errno);
  } else if (status.st_dev != device_ && !begins_in_kernels_ && is_kernels(directory.get())) {
    ++report_.skipped;
  } else {
    use(std::move(directory), path + "/");
  }
}

void Walk::fail(const std::string& path, int error) {
  // Gone meanwhile, or swapped for a link.
  if (error != ENOENT && error != ELOOP && error != ENOTDIR) {
    report_.unreadable(path, error);
  }
}

}  // namespace rex::files
