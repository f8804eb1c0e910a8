#include "files/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/fd.h"
#include "files/entry.h"

namespace rex::files {
namespace {

bool is_directory(const std::string& path) {
  struct ::stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

void mkdir(const std::string& path, bool parents) {
  check_path("path", path);
  if (::mkdir(path.c_str(), 0777) == 0) {
    return;
  }
  int error = errno;
  if (parents && error == ENOENT) {
    make_parents(path);
    error = ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  }
  // Some file systems answer EROFS or EACCES for what exists already.
  if (error != 0 && !(parents && is_directory(path))) {
    throw os_error("cannot make the directory", error, path);
  }
}

void make_parents(const std::string& path) {
  // One by one from the longest that exists: no recursion over a path of 2,000 slashes.
  std::vector<std::string> missing;
  std::string parent = split_path(path).directory;
  struct ::stat status{};
  while (::stat(parent.c_str(), &status) != 0 && errno == ENOENT && parent != "." && parent != "/") {
    missing.push_back(parent);
    parent = split_path(parent).directory;
  }
  for (; !missing.empty(); missing.pop_back()) {
    const std::string& next = missing.back();
    if (::mkdir(next.c_str(), 0777) != 0) {
      const int error = errno;
      if (!is_directory(next)) {
        throw os_error("cannot make the directory", error, next);
      }
    }
  }
}

void rename(const std::string& from, const std::string& to, bool overwrite) {
  check_path("from", from);
  check_path("to", to);
  const auto failure = [&](int error) {
    return os_error("cannot rename " + printable(from) + " to", error, to).with("from", from);
  };
  if (overwrite) {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      throw failure(errno);
    }
    return;
  }
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    throw failure(errno);
  }
  // A file system (NFS, some FUSE) or kernel without the flag, or a directory into itself.
  struct ::stat status{};
  if (::lstat(to.c_str(), &status) == 0) {
    throw failure(EEXIST);
  }
  if (::lstat(from.c_str(), &status) != 0) {
    throw failure(errno);
  }
  if (S_ISDIR(status.st_mode)) {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      throw failure(errno);
    }
    return;
  }
  if (::link(from.c_str(), to.c_str()) != 0) {
    throw failure(errno);
  }
  if (::unlink(from.c_str()) != 0) {
    const int error = errno;
    ::unlink(to.c_str());
    throw failure(error);
  }
}

void symlink(const std::string& path, const std::string& target) {
  check_path("path", path);
  check_path("target", target);
  if (::symlink(target.c_str(), path.c_str()) != 0) {
    throw os_error("cannot make the link", errno, path);
  }
}

std::string realpath(const std::string& path) {
  check_path("path", path);
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real) {
    throw os_error("cannot resolve", errno, path);
  }
  return real.get();
}

namespace {

constexpr std::uint32_t no_id = 0xFFFFFFFF;  // the kernel's word for "leave it"

void check(const Attributes& attributes) {
  if (attributes.mode && *attributes.mode > 07777) {
    throw invalid_params("mode", "is not 0 to 07777");
  }
  if (attributes.uid == no_id || attributes.gid == no_id) {
    throw invalid_params(attributes.uid == no_id ? "uid" : "gid", "is not 0 to 4294967294");
  }
  if (attributes.mtime && (attributes.mtime->tv_nsec < 0 || attributes.mtime->tv_nsec > 999'999'999)) {
    throw invalid_params("mtime", "has nanoseconds beyond a second");
  }
}

/// Sets the mtime of the open file `self`; false with errno when it could not, or could not exactly.
bool set_mtime(const std::string& self, timespec mtime) {
  struct ::stat before{};
  struct ::stat after{};
  const timespec times[2] = {{0, UTIME_OMIT}, mtime};
  if (::stat(self.c_str(), &before) != 0 || ::utimensat(AT_FDCWD, self.c_str(), times, 0) != 0 ||
      ::stat(self.c_str(), &after) != 0) {
    return false;
  }
  const std::int64_t off = after.st_mtim.tv_sec - mtime.tv_sec;
  if (off < -2 || off > 2) {  // the kernel clamps without a word
    const timespec restore[2] = {{0, UTIME_OMIT}, before.st_mtim};
    ::utimensat(AT_FDCWD, self.c_str(), restore, 0);
    errno = ERANGE;
    return false;
  }
  return true;
}

}  // namespace

Stat setattr(const std::string& path, const Attributes& attributes) {
  check_path("path", path);
  check(attributes);
  // One file throughout, whatever happens to its name; /proc because no kernel before 6.6 can chmod an O_PATH.
  const Fd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file) {
    throw os_error("cannot open", errno, path);
  }
  const std::string self = "/proc/self/fd/" + std::to_string(file.get());
  bool changed = false;
  const auto require = [&](bool done, const char* what) {
    if (!done) {
      Error error = os_error(what, errno, path);
      throw changed ? std::move(error).executed(Executed::unknown) : std::move(error);
    }
    changed = true;
  };
  if (attributes.uid || attributes.gid) {
    require(::chown(self.c_str(), attributes.uid.value_or(no_id), attributes.gid.value_or(no_id)) == 0,
            "cannot set the owner of");
  }
  if (attributes.mode) {
    require(::chmod(self.c_str(), *attributes.mode) == 0, "cannot set the mode of");
  }
  if (attributes.mtime) {
    require(set_mtime(self, *attributes.mtime), "cannot set the mtime of");
  }
  struct ::stat status{};
  require(::fstat(file.get(), &status) == 0, "cannot stat");
  return to_stat(status);
}

}  // namespace rex::files
