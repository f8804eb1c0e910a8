#include "files/copy_inventory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "files/copy_stream.h"
#include "files/entry.h"

namespace rex::files {
namespace {

constexpr std::string_view begun_end = ".rex-copy";
constexpr std::size_t max_name = 255;
constexpr std::size_t max_begun = 16;                      // held open
constexpr std::chrono::milliseconds lock_patience{3'000};  // a copy whose link was cut ends within that

bool is_same(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

/// Where a file lies whose name is that of something begun: the path of what it is the beginning of; else "".
std::string of_begun(const std::string& relative) {
  const std::size_t slash = relative.rfind('/') + 1;  // 0 where there is none
  const std::string_view name = std::string_view(relative).substr(slash);
  if (!name.starts_with('.') || !name.ends_with(begun_end) || name.size() < begun_end.size() + 2) {
    return "";
  }
  return relative.substr(0, slash) + std::string(name.substr(1, name.size() - 1 - begun_end.size()));
}

}  // namespace

std::string begun_name(const std::string& name) {
  const std::string begun = "." + name + std::string(begun_end);
  return begun.size() <= max_name ? begun : "";
}

bool is_our_begun(int file, int directory, const std::string& name, std::chrono::milliseconds patience) {
  struct ::stat opened{};
  struct ::stat named{};
  return lock_within(file, patience) == 0 && ::fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) &&
         opened.st_uid == ::geteuid() && opened.st_nlink == 1 && (opened.st_mode & 07777) == 0600 &&
         ::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

bool has_content(int file, std::int64_t size, const std::string& hash) {
  struct ::stat status{};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != size) {
    return false;
  }
  Sha256 digest;
  std::array<char, 64 << 10> buffer;
  std::int64_t at = 0;
  while (at < size) {
    const ssize_t n = ::pread(file, buffer.data(), buffer.size(), at);
    if (n > 0) {
      digest.update({buffer.data(), static_cast<std::size_t>(n)});
      at += n;
    } else if (n == 0 || errno != EINTR) {
      return false;
    }
  }
  return at == size && digest.finish() == hash;
}

bool set_attributes(int file, std::uint32_t mode, const timespec& mtime, bool& changed) {
  struct ::stat status{};
  if (::fstat(file, &status) != 0) {
    return false;
  }
  if ((status.st_mode & 07777) != mode) {
    if (::fchmod(file, mode) != 0) {
      return false;
    }
    changed = true;
  }
  if (!is_same(status.st_mtim, mtime)) {
    const timespec times[2] = {{0, UTIME_OMIT}, mtime};
    if (::futimens(file, times) != 0) {
      return false;
    }
    changed = true;
  }
  return true;
}

bool CopyInventory::Whole::is_in(int file) const {
  struct ::stat now{};
  const bool untouched = ::fstat(file, &now) == 0 && now.st_dev == status.st_dev && now.st_ino == status.st_ino &&
                         now.st_size == status.st_size && is_same(now.st_ctim, status.st_ctim);
  return untouched || has_content(file, status.st_size, hash);
}

std::string CopyInventory::full(const std::string& relative) const {
  return relative.empty() ? path_ : path_ + "/" + relative;
}

bool CopyInventory::tell(std::string& stream, std::size_t bytes) {
  const std::size_t enough = stream.size() + bytes;
  if (!std::exchange(opened_, true)) {
    std::error_code none;
    next_ = {path_, std::filesystem::directory_options::skip_permission_denied, none};
    if (none) {  // no directory: a file, or nothing
      look("");
    }
  }
  for (std::int64_t worked = 0; stream.size() < enough && worked < max_hole_bytes;) {
    if (reading_.file) {
      worked += read_on(stream);
    } else if (next_ != std::filesystem::recursive_directory_iterator() &&
               whole_.size() + begun_.size() < max_inventory) {
      std::error_code ignored;
      if (next_->symlink_status(ignored).type() == std::filesystem::file_type::regular) {
        look(next_->path().string().substr(path_.size() + 1));
      }
      next_.increment(ignored);
    } else {
      append(stream, {});
      return false;
    }
  }
  return true;
}

/// Opens it for reading. The one file that a copy may go to is looked at when there is none begun beside it.
void CopyInventory::look(const std::string& relative) {
  const SplitPath split = split_path(full(relative));
  at_begun_ = true;
  at_ = relative.empty() ? "" : of_begun(relative);
  std::string begun = relative.empty() ? begun_name(split.name) : at_.empty() ? "" : split.name;
  if (!begun.empty() && begun_.size() < max_begun) {
    const Fd directory(::open(split.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    reading_.file.reset(::openat(directory.get(), begun.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (reading_.file && !is_our_begun(reading_.file.get(), directory.get(), begun, lock_patience)) {
      reading_.file.reset();
    }
  }
  if (!reading_.file && (relative.empty() || at_.empty())) {
    at_begun_ = false;
    at_ = relative;
    reading_.file.reset(::open(full(relative).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  }
  if (!reading_.file || ::fstat(reading_.file.get(), &status_) != 0 || !S_ISREG(status_.st_mode) ||
      status_.st_uid != ::geteuid()) {
    reading_.file.reset();
  }
  offset_ = 0;
  reading_.hash = {};
}

/// The next piece of the file; how much was read.
std::int64_t CopyInventory::read_on(std::string& stream) {
  std::array<char, 64 << 10> buffer;
  std::int64_t done = 0;
  while (done < static_cast<std::int64_t>(max_copy_bytes)) {
    const ssize_t size = ::pread(reading_.file.get(), buffer.data(), buffer.size(), offset_);
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size <= 0) {
      reading_.size = offset_;
      if (offset_ > 0) {
        const std::string hash = reading_.hash.so_far();
        append(stream, {.kind = CopyRecord::Kind::file,
                        .path = at_,
                        .size = offset_,
                        .offset = at_begun_ ? offset_ : 0,
                        .text = hash});
        if (at_begun_) {
          begun_.insert_or_assign(at_, std::exchange(reading_, {}));
        } else {
          whole_.insert_or_assign(at_, Whole{status_, hash});
        }
      }
      reading_ = {};
      break;
    }
    reading_.hash.update({buffer.data(), static_cast<std::size_t>(size)});
    offset_ += size;
    done += size;
  }
  return done;
}

std::optional<CopyInventory::Begun> CopyInventory::take_begun(const std::string& path) {
  const auto found = begun_.find(path);
  if (found == begun_.end() || brought_.contains(path)) {
    return std::nullopt;
  }
  Begun begun = std::move(found->second);
  begun_.erase(found);
  return begun;
}

const CopyInventory::Whole* CopyInventory::whole(const std::string& path) const {
  const auto found = whole_.find(path);
  return found == whole_.end() ? nullptr : &found->second;
}

void CopyInventory::brings(const std::string& path) {
  if (std::string target = of_begun(path); !target.empty()) {
    brought_.insert(std::move(target));
  }
}

Fd CopyInventory::create_begun(const std::string& path, int directory, const std::string& name) {
  if (name.empty() || brought_.contains(path)) {
    return {};
  }
  begun_.erase(path);  // which lets go of its lock
  constexpr int flags = O_NOFOLLOW | O_WRONLY | O_NONBLOCK | O_CLOEXEC;
  Fd file(::openat(directory, name.c_str(), flags | O_CREAT | O_EXCL, 0600));
  const bool made = static_cast<bool>(file);
  if (!made) {
    file.reset(::openat(directory, name.c_str(), flags));
  }
  if (file && is_our_begun(file.get(), directory, name) && ::ftruncate(file.get(), 0) == 0) {
    return file;
  }
  if (made) {
    ::unlinkat(directory, name.c_str(), 0);
  }
  return {};
}

}  // namespace rex::files
