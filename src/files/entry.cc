#include "files/entry.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>

#include "files/stat.h"

namespace rex::files {

void check_path(std::string_view member, std::string_view path) {
  if (path.empty()) {
    throw invalid_params(member, "is empty");
  }
  if (path.find('\0') != path.npos) {
    throw invalid_params(member, "has a NUL");
  }
}

std::optional<std::string> read_link(int directory, const std::string& name) {
  char target[PATH_MAX];
  const ssize_t size = ::readlinkat(directory, name.c_str(), target, sizeof target);
  if (size < 0) {
    return std::nullopt;
  }
  return std::string(target, static_cast<std::size_t>(size));
}

SplitPath split_path(std::string_view path) {
  const std::size_t whole = path.size();
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const bool trailing_slash = path.size() < whole;
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) {
    return {path.empty() ? "/" : ".", std::string(path), trailing_slash};
  }
  return {std::string(path.substr(0, slash + 1)), std::string(path.substr(slash + 1)), trailing_slash};
}

std::optional<struct ::stat> Entry::status() const {
  struct ::stat status{};
  if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    return status;
  }
  if (errno != ENOENT) {
    throw os_error("cannot stat", errno, path);
  }
  return std::nullopt;
}

Fd open_below(int root, const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  Fd found(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
  if (!found && (errno == ENOSYS || errno == EPERM)) {
    found.reset(::openat(root, path.c_str(), static_cast<int>(how.flags)));
  }
  return found;
}

Entry locate(const std::string& path) {
  constexpr int max_links = 40;  // as the kernel's
  Entry entry{{}, true, {}, path};
  std::string rest = path;
  for (int links = 0; links <= max_links; ++links) {
    SplitPath split = split_path(rest);
    if (split.name.empty() || split.name == "." || split.name == ".." || split.trailing_slash) {
      throw os_error("cannot write", EISDIR, path);
    }
    const int at = entry.directory ? entry.directory.get() : AT_FDCWD;
    constexpr int flags = O_DIRECTORY | O_CLOEXEC;
    Fd directory(::openat(at, split.directory.c_str(), O_RDONLY | O_NONBLOCK | flags));
    entry.directory_readable = static_cast<bool>(directory);
    if (!directory) {
      directory.reset(::openat(at, split.directory.c_str(), O_PATH | flags));
    }
    if (!directory) {
      throw os_error("cannot open the directory of", errno, path);
    }
    entry.directory = std::move(directory);
    entry.name = std::move(split.name);
    const auto target = read_link(entry.directory.get(), entry.name);
    if (!target) {
      return entry;
    }
    rest = *target;
  }
  throw os_error("cannot follow", ELOOP, path);
}

void require_regular(const struct ::stat& status, std::string_view what, std::string_view path) {
  if (S_ISREG(status.st_mode)) {
    return;
  }
  if (S_ISDIR(status.st_mode)) {
    throw os_error(what, EISDIR, path);
  }
  const std::string kind(name_of(to_stat(status).type));
  throw os_error(std::string(what) + " what is no file but a " + kind + ":", EINVAL, path);
}

void require_replaceable(int directory, const std::string& name, std::string_view path) {
  struct ::stat status{};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(status.st_mode) &&
      !S_ISDIR(status.st_mode)) {
    require_regular(status, "cannot replace", path);
  }
}

OpenFile open_regular(int directory, const std::string& name, std::string_view path, int flags) {
  OpenFile file{};
  // Looking before opening: opening alone makes some devices act. The flags and the second look are for what is
  // swapped in between.
  if (::fstatat(directory, name.c_str(), &file.status, (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0) != 0) {
    throw os_error("cannot open", errno, path);
  }
  require_regular(file.status, "cannot open", path);
  file.fd.reset(::openat(directory, name.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags));
  if (!file.fd || ::fstat(file.fd.get(), &file.status) != 0) {
    throw os_error("cannot open", errno, path);
  }
  require_regular(file.status, "cannot open", path);
  return file;
}

void check_condition(const Condition& condition, const std::optional<struct ::stat>& status, std::string_view path) {
  const std::string etag = status ? etag_of(*status) : "";
  std::string problem;
  if (condition.if_absent && status) {
    problem = " exists already";
  } else if (condition.if_match && *condition.if_match != etag) {
    problem = status ? " is not what ifMatch says: it was changed" : " does not exist any more";
  }
  if (!problem.empty()) {
    Error error(Fault::Conflict, printable(path) + problem);
    throw std::move(error).with("etag", etag).with("path", std::string(path));
  }
}

DirectoryLock::DirectoryLock(const Entry& entry) {
  if (!entry.directory_readable) {
    return;
  }
  fd_.reset(::openat(entry.directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd_) {
    return;
  }
  if (lock_within(fd_.get(), std::chrono::milliseconds(250)) == EWOULDBLOCK) {
    throw os_error("cannot lock the directory of", EWOULDBLOCK, entry.path).retryable();
  }
}

}  // namespace rex::files
