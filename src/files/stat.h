// What a file is: `file/stat` and `file/list`, and the etag that conditional writes compare. Follows nothing but a
// final symbolic link, opens nothing but directories. Paths are as the kernel takes them: relative ones start at the
// instance's working directory, `~` is an ordinary character.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rex::files {

enum class Type { file, directory, symlink, fifo, socket, charDevice, blockDevice };

/// The wire's name, for example "charDevice".
std::string_view name_of(Type type);

struct Stat {
  Type type = Type::file;
  std::int64_t size = 0;
  std::uint32_t mode = 0;  // permission, setuid, setgid and sticky bits: 0 to 07777
  timespec mtime{};
  timespec ctime{};
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::optional<std::string> target;  // of a symbolic link, as it is written; any bytes
  std::string etag;
};

/// Same etag, same file and content: made of device, inode, size, mtime and ctime. Opaque to clients.
/// Its grain is the file system's clock: where a kernel (before 6.13) stamps two changes within one tick (4 ms) alike,
/// the second one shows only if it changed size or inode. read() waits such a tick out before it reads.
std::string etag_of(const struct ::stat& status);

Stat to_stat(const struct ::stat& status);

/// `follow`: of what a final symbolic link leads to. Throws OsError, or InvalidParams for an empty path or one with
/// NUL.
Stat stat(const std::string& path, bool follow = true);

inline constexpr std::int64_t default_list_limit = 1'000;
inline constexpr std::int64_t max_list_limit = 10'000;       // `list.limit`
inline constexpr std::int64_t max_listed_names = 4'000'000;  // `list.names`: about a second of reading names

struct ListOptions {
  std::string path = {};
  std::string cursor = {};  // of the page before; empty for the first
  std::int64_t limit = default_list_limit;
};

struct ListedEntry {
  std::string name;
  Stat stat;  // of the entry itself: links are not followed
};

struct ListResult {
  std::vector<ListedEntry> entries;   // by the bytes of their names, without "." and ".."
  std::optional<std::string> cursor;  // absent on the last page
};

/// One page. What is there all the time while pages are fetched is listed exactly once, whatever comes and goes. Memory
/// is one page's, time one pass over all names. Throws OsError, InvalidParams, LimitExceeded.
ListResult list(const ListOptions& options);

}  // namespace rex::files
