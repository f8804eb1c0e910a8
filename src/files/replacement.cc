#include "files/replacement.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "base/digest.h"

namespace rex::files {
namespace {

/// Short enough beside any name, and unlike any a person would choose. Hidden.
std::string random_name() {
  std::string name = ".rex-rpc-";
  for (const char each : random_bytes(10)) {
    const auto byte = static_cast<unsigned char>(each);
    name += static_cast<char>('a' + byte % 16);
    name += static_cast<char>('a' + byte / 16);
  }
  return name + ".tmp";
}

constexpr char acl_attribute[] = "system.posix_acl_access";

/// Attributes that give rights to whoever runs the file's content, or that the kernel keeps itself.
bool must_not_be_copied(std::string_view attribute) {
  return attribute == "security.capability" || attribute == "security.ima" || attribute == "security.evm";
}

}  // namespace

Replacement::Replacement(Entry entry, std::string_view data, std::optional<mode_t> mode) : entry_(std::move(entry)) {
  const auto old = entry_.status();
  if (old) {
    require_regular(*old, "cannot replace", entry_.path);
    // A rename would not ask the file, only its directory; a read-only file is meant to stay.
    if (::faccessat(dir(), entry_.name.c_str(), W_OK, AT_EACCESS) != 0) {
      throw os_error("cannot write", errno, entry_.path);
    }
  }
  try {
    create(old ? 0600 : mode);
    write(data);
    if (old) {
      copy_attributes(*old);
    }
    if (::fsync(file_.get()) != 0) {
      throw os_error("cannot sync", errno, entry_.path);
    }
  } catch (...) {
    if (!temporary_.empty()) {
      ::unlinkat(dir(), temporary_.c_str(), 0);  // no destructor runs for a constructor that throws
    }
    throw;
  }
}

Replacement::~Replacement() {
  for (const std::string& name : {temporary_, kept_}) {
    if (!name.empty()) {
      ::unlinkat(dir(), name.c_str(), 0);
    }
  }
}

void Replacement::create(std::optional<mode_t> mode) {
  const mode_t creation_mode = mode.value_or(0666);
  file_.reset(::openat(dir(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, creation_mode));
  if (!file_) {  // not every file system knows files without a name
    std::string name = random_name();
    file_.reset(::openat(dir(), name.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, creation_mode));
    if (!file_) {
      throw os_error("cannot create", errno, entry_.path);
    }
    temporary_ = std::move(name);
  }
  if (mode && ::fchmod(file_.get(), *mode) != 0) {  // the umask took its part
    throw os_error("cannot set the mode of", errno, entry_.path);
  }
}

void Replacement::write(std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(file_.get(), data.data(), data.size());
    if (n >= 0) {
      data.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      throw os_error("cannot write", errno, entry_.path);
    }
  }
}

void Replacement::copy_attributes(const struct ::stat& old) {
  mode_t mode = old.st_mode & 01777;
  struct ::stat mine{};
  if (::fstat(file_.get(), &mine) != 0) {
    throw os_error("cannot stat", errno, entry_.path);
  }
  bool same_group = mine.st_gid == old.st_gid;
  const bool same_owner = mine.st_uid == old.st_uid;
  if (!same_owner || !same_group) {
    const bool all = ::fchown(file_.get(), old.st_uid, old.st_gid) == 0;
    same_group = all || ::fchown(file_.get(), static_cast<uid_t>(-1), old.st_gid) == 0 || same_group;
  }
  if (same_group) {
    const Fd source(::openat(dir(), entry_.name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
    if (source) {
      copy_extended_attributes(source.get());
    }
  } else {
    mode &= ~static_cast<mode_t>(070) | (mode & 07) << 3;  // this group gets what everyone had
  }
  if (::fchmod(file_.get(), mode) != 0) {
    throw os_error("cannot set the mode of", errno, entry_.path);
  }
}

void Replacement::copy_extended_attributes(int old) {
  std::vector<char> names(64 << 10);  // the kernel's own bounds for the list and for a value
  std::vector<char> value(64 << 10);
  const ssize_t size = ::flistxattr(old, names.data(), names.size());
  bool has_acl = false;
  for (const char* name = names.data(); size > 0 && name < names.data() + size;
       name += std::string_view(name).size() + 1) {
    has_acl = has_acl || std::string_view(name) == acl_attribute;
    const ssize_t length = must_not_be_copied(name) ? -1 : ::fgetxattr(old, name, value.data(), value.size());
    if (length >= 0) {
      // Where we may not, as with trusted.* for ordinary users, the file goes without.
      std::ignore = ::fsetxattr(file_.get(), name, value.data(), static_cast<std::size_t>(length), 0);
    }
  }
  if (!has_acl) {  // one may have come from the directory's default
    ::fremovexattr(file_.get(), acl_attribute);
  }
}

void Replacement::link_temporary() {
  if (!temporary_.empty()) {
    return;
  }
  std::string name = random_name();
  const std::string self = "/proc/self/fd/" + std::to_string(file_.get());
  // The first way needs a privilege before Linux 6.10, the second one /proc.
  if (::linkat(file_.get(), "", dir(), name.c_str(), AT_EMPTY_PATH) != 0 &&
      ::linkat(AT_FDCWD, self.c_str(), dir(), name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    throw os_error("cannot create", errno, entry_.path);
  }
  temporary_ = std::move(name);
}

bool Replacement::rename_exclusively() {
  if (::renameat2(dir(), temporary_.c_str(), dir(), entry_.name.c_str(), RENAME_NOREPLACE) == 0) {
    return true;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return false;
  }
  // File systems without that flag have links, which never replace anything either.
  if (::linkat(dir(), temporary_.c_str(), dir(), entry_.name.c_str(), 0) != 0) {
    return false;
  }
  ::unlinkat(dir(), temporary_.c_str(), 0);
  return true;
}

void Replacement::take_name(bool exclusive, bool keep_old) {
  link_temporary();
  if (keep_old) {
    std::string name = random_name();
    if (::linkat(dir(), entry_.name.c_str(), dir(), name.c_str(), 0) != 0) {
      throw os_error("cannot keep the old content of", errno, entry_.path);
    }
    kept_ = std::move(name);
  }
  const bool renamed =
      exclusive ? rename_exclusively() : ::renameat(dir(), temporary_.c_str(), dir(), entry_.name.c_str()) == 0;
  if (!renamed) {
    const int error = errno;
    if (error == EEXIST) {
      check({.if_match = std::nullopt, .if_absent = true});
    }
    throw os_error("cannot replace", error, entry_.path);
  }
  temporary_.clear();
}

void Replacement::give_back() {
  if (kept_.empty()) {
    return;
  }
  if (::renameat(dir(), kept_.c_str(), dir(), entry_.name.c_str()) != 0) {
    const std::string name = std::exchange(kept_, {});  // leave it: it is the only copy
    throw os_error("cannot restore the old content, now named " + name + ", of", errno, entry_.path)
        .executed(Executed::unknown);
  }
  kept_.clear();
}

struct ::stat Replacement::finish() {
  if (!kept_.empty()) {
    ::unlinkat(dir(), kept_.c_str(), 0);
    kept_.clear();
  }
  if (entry_.directory_readable && ::fsync(dir()) != 0 && errno != EINVAL && errno != EROFS) {
    throw os_error("cannot sync the directory of", errno, entry_.path).executed(Executed::unknown);
  }
  struct ::stat status{};
  if (::fstat(file_.get(), &status) != 0) {
    throw os_error("cannot stat", errno, entry_.path).executed(Executed::yes);
  }
  return status;
}

}  // namespace rex::files
