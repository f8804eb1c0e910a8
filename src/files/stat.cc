#include "files/stat.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <memory>
#include <queue>

#include "base/encoding.h"
#include "base/error.h"
#include "base/fd.h"
#include "files/entry.h"

namespace rex::files {

std::string_view name_of(Type type) {
  switch (type) {
    case Type::file: return "file";
    case Type::directory: return "directory";
    case Type::symlink: return "symlink";
    case Type::fifo: return "fifo";
    case Type::socket: return "socket";
    case Type::charDevice: return "charDevice";
    case Type::blockDevice: return "blockDevice";
  }
  return "file";
}

namespace {

Type type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR: return Type::directory;
    case S_IFLNK: return Type::symlink;
    case S_IFIFO: return Type::fifo;
    case S_IFSOCK: return Type::socket;
    case S_IFCHR: return Type::charDevice;
    case S_IFBLK: return Type::blockDevice;
    default: return Type::file;
  }
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

/// The `count` smallest names above `after`, in order.
std::vector<std::string> names_after(DIR* directory, const ListOptions& options, std::string_view after,
                                     std::size_t count) {
  std::priority_queue<std::string> smallest;  // the largest of them on top
  std::int64_t seen = 0;
  errno = 0;
  while (const dirent* entry = ::readdir(directory)) {
    if (++seen > max_listed_names) {
      throw limit_exceeded("list.names", seen, max_listed_names);
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || name <= after) {
      continue;
    }
    if (smallest.size() < count) {
      smallest.emplace(name);
    } else if (name < smallest.top()) {
      smallest.pop();
      smallest.emplace(name);
    }
    errno = 0;
  }
  if (errno != 0) {
    throw os_error("cannot list", errno, options.path);
  }
  std::vector<std::string> names(smallest.size());
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    *name = smallest.top();
    smallest.pop();
  }
  return names;
}

}  // namespace

std::string etag_of(const struct ::stat& status) {
  char text[128];
  const auto nanoseconds = [](timespec time) {
    return static_cast<unsigned long long>(time.tv_sec) * 1'000'000'000ULL +
           static_cast<unsigned long long>(time.tv_nsec);
  };
  std::snprintf(text, sizeof text, "%llx-%llx-%llx-%llx-%llx", static_cast<unsigned long long>(status.st_dev),
                static_cast<unsigned long long>(status.st_ino), static_cast<unsigned long long>(status.st_size),
                nanoseconds(status.st_mtim), nanoseconds(status.st_ctim));
  return text;
}

Stat to_stat(const struct ::stat& status) {
  Stat result;
  result.type = type_of(status.st_mode);
  result.size = status.st_size;
  result.mode = status.st_mode & 07777;
  result.mtime = status.st_mtim;
  result.ctime = status.st_ctim;
  result.uid = status.st_uid;
  result.gid = status.st_gid;
  result.etag = etag_of(status);
  return result;
}

Stat stat(const std::string& path, bool follow) {
  check_path("path", path);
  struct ::stat status{};
  if (::fstatat(AT_FDCWD, path.c_str(), &status, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    throw os_error("cannot stat", errno, path);
  }
  Stat result = to_stat(status);
  if (result.type == Type::symlink) {
    result.target = read_link(AT_FDCWD, path);
  }
  return result;
}

ListResult list(const ListOptions& options) {
  check_path("path", options.path);
  if (options.limit < 1) {
    throw invalid_params("limit", "is below 1");
  }
  if (options.limit > max_list_limit) {
    throw limit_exceeded("list.limit", options.limit, max_list_limit);
  }
  const auto after = from_base64(options.cursor);
  if (!after) {
    throw invalid_params("cursor", "was not given by file/list");
  }
  Fd fd(::open(options.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
  const std::unique_ptr<DIR, CloseDirectory> directory(fd ? ::fdopendir(fd.get()) : nullptr);
  if (!directory) {
    throw os_error("cannot list", errno, options.path);
  }
  const int at = fd.release();

  const auto limit = static_cast<std::size_t>(options.limit);
  std::vector<std::string> names = names_after(directory.get(), options, *after, limit + 1);
  ListResult result;
  if (names.size() > limit) {
    names.pop_back();
    result.cursor = to_base64(names.back());
  }
  result.entries.reserve(names.size());
  for (std::string& name : names) {
    struct ::stat status{};
    if (::fstatat(at, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) {
        continue;  // gone since its name was read
      }
      throw os_error("cannot stat", errno, options.path + "/" + name);
    }
    ListedEntry entry{std::move(name), to_stat(status)};
    if (entry.stat.type == Type::symlink) {
      entry.stat.target = read_link(at, entry.name);
    }
    result.entries.push_back(std::move(entry));
  }
  return result;
}

}  // namespace rex::files
