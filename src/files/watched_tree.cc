#include "files/watched_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>

#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "files/entry.h"

namespace rex::files {
namespace {

constexpr std::uint32_t names_events = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
constexpr std::uint32_t self_events =
    IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_MASK_ADD;
constexpr std::uint32_t folder_events = names_events | self_events | IN_ONLYDIR;
constexpr std::uint32_t ancestor_events = names_events | IN_ONLYDIR | IN_MASK_ADD;
constexpr std::size_t max_ancestors = 256;

bool is_gone(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

void Dirty::add(const std::string& folder, std::string_view name, unsigned bits) {
  auto& names = folders.try_emplace(folder, std::in_place).first->second;
  if (names) {
    (*names)[std::string(name)] |= bits;
    if (names->size() > max_names) {
      names.reset();
    }
  }
}

WatchedTree::WatchedTree(std::string path, bool recursive, std::function<int(const std::string&, std::uint32_t)> add,
                         std::atomic<std::int64_t>& entries)
    : path_(std::move(path)), recursive_(recursive), add_watch_(std::move(add)), entries_(entries) {
  check_path("path", path_);
}

WatchedTree::~WatchedTree() {
  for (const auto& [path, folder] : folders_) {
    entries_ -= static_cast<std::int64_t>(folder.entries.size());
  }
}

/// Another value, another state: of 64 bits, so that half a million of them take little.
WatchedTree::Entry WatchedTree::entry_of(const struct ::stat& status) {
  std::uint64_t mark = 0xcbf29ce484222325;
  const auto mix = [&mark](auto value) {
    mark = (mark ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15;
    mark ^= mark >> 29;
  };
  const bool directory = S_ISDIR(status.st_mode);
  mix(status.st_dev);
  mix(status.st_ino);
  mix(status.st_mode);
  mix(status.st_uid);
  mix(status.st_gid);
  if (!directory) {  // whose size and times change with what is in it
    mix(status.st_size);
    mix(status.st_mtim.tv_sec);
    mix(status.st_mtim.tv_nsec);
    mix(status.st_ctim.tv_sec);
    mix(status.st_ctim.tv_nsec);
  }
  return {mark, directory};
}

std::string WatchedTree::full(const std::string& relative) const {
  return relative.empty() ? path_ : path_ + (path_.ends_with('/') ? "" : "/") + relative;
}

WatchedTree::Outcome WatchedTree::begin() {
  struct ::stat status{};
  if (::stat(path_.c_str(), &status) != 0) {
    throw os_error("cannot watch", errno, path_);
  }
  look_at_root(false);
  if (!std::exchange(pending_, {}).empty()) {
    if (const int error = scan(""); error != 0) {
      throw os_error("cannot watch", error, path_);
    }
  }
  scan_pending();
  if (outcome_.too_large) {
    throw limit_exceeded("watch.entries", max_watched_entries + 1, max_watched_entries);
  }
  return std::exchange(outcome_, {});
}

WatchedTree::Outcome WatchedTree::look(const Dirty& dirty) {
  if (dirty.root || dirty.everything) {
    look_at_root(dirty.root_written);
  }
  if (dirty.everything) {
    for (const auto& [path, folder] : folders_) {
      pending_.push_back(path);
    }
  }
  scan_pending();
  for (const auto& [folder, names] : dirty.folders) {
    if (!names) {
      pending_.push_back(folder);
      scan_pending();
      continue;
    }
    for (const auto& [name, bits] : *names) {
      look_at(folder, name, bits);
    }
    scan_pending();
  }
  return std::exchange(outcome_, {});
}

/// `before`: the descriptor it had. The new one is told first, so that an inode that keeps its own stays watched.
int WatchedTree::watch(const std::string& path, std::uint32_t events, Place place, int before) {
  const int now = add_watch_(path, events);
  const int error = now < 0 ? errno : 0;
  if (now >= 0 && now != before) {
    outcome_.added.emplace_back(now, place);
  }
  if (before >= 0 && now != before) {
    outcome_.dropped.emplace_back(before, std::move(place));
  }
  if (error != 0 && error != EACCES && !is_gone(error)) {
    outcome_.blind = error;
  }
  errno = error;
  return now;
}

/// Every directory on the way, so that the path is found again whichever of them is moved, removed or made anew.
void WatchedTree::watch_ancestors() {
  std::vector<std::pair<int, Place>> before = std::exchange(ancestors_, {});
  std::size_t at = path_.starts_with('/') ? 1 : 0;
  bool blind = false;
  while (at < path_.size() && ancestors_.size() < max_ancestors) {
    const std::size_t end = std::min(path_.find('/', at), path_.size());
    const std::string name = path_.substr(at, end - at);
    if (!name.empty() && name != ".") {
      const Place place{Place::Role::ancestor, name};
      const int watch = add_watch_(at == 0 ? "." : path_.substr(0, at), ancestor_events);
      if (watch < 0 && is_gone(errno)) {
        break;
      }
      blind = blind || watch < 0;
      if (watch >= 0) {
        ancestors_.emplace_back(watch, place);
      }
    }
    at = end + 1;
  }
  for (const auto& now : ancestors_) {
    if (std::erase(before, now) == 0) {
      outcome_.added.push_back(now);
    }
  }
  outcome_.dropped.insert(outcome_.dropped.end(), before.begin(), before.end());
  struct ::stat status{};
  if (blind && ::stat(path_.c_str(), &status) != 0) {
    outcome_.blind = EACCES;  // nothing tells when it comes back
  }
}

void WatchedTree::look_at_root(bool written) {
  watch_ancestors();
  struct ::stat status{};
  const bool there = ::stat(path_.c_str(), &status) == 0;
  const bool directory = there && S_ISDIR(status.st_mode);
  if (!directory && folders_.contains("")) {
    forget("");
  }
  if (directory || !there) {
    if (self_ >= 0) {
      outcome_.dropped.emplace_back(std::exchange(self_, -1), Place{Place::Role::self, ""});
    }
  } else {
    self_ = watch(path_, self_events, {Place::Role::self, ""}, self_);
  }
  const std::optional<Entry> now = there ? std::optional(entry_of(status)) : std::nullopt;
  if (there && !root_) {
    change("", ChangeKind::created);
  } else if (!there && root_) {
    change("", ChangeKind::removed);
  } else if (there && (now->mark != root_->mark || (written && !directory))) {
    change("", ChangeKind::modified);
  }
  root_ = now;
  if (directory) {
    folders_.try_emplace("");
    pending_.emplace_back("");
  }
}

void WatchedTree::scan_pending() {
  while (!pending_.empty() && !stopped_) {
    const std::string folder = std::move(pending_.back());
    pending_.pop_back();
    scan(folder);
  }
}

/// Watches the folder first and looks at it then: what is made in between is seen by one of the two. An errno.
int WatchedTree::scan(const std::string& path) {
  const auto found = folders_.find(path);
  if (found == folders_.end()) {
    return 0;
  }
  Folder& folder = found->second;
  const std::uint32_t follow = path.empty() ? 0 : IN_DONT_FOLLOW;
  folder.watch = watch(full(path), folder_events | follow, {Place::Role::folder, path}, folder.watch);
  const int no_follow = path.empty() ? 0 : O_NOFOLLOW;
  Fd fd(::open(full(path).c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | no_follow));
  const std::unique_ptr<DIR, CloseDirectory> directory(fd ? ::fdopendir(fd.get()) : nullptr);
  const int error = directory ? 0 : errno;
  unreadable_ += (error != 0 && !is_gone(error) ? 1 : 0) - (folder.unreadable ? 1 : 0);
  folder.unreadable = error != 0 && !is_gone(error);
  if (!directory) {
    return error;
  }
  static_cast<void>(fd.release());
  std::set<std::string> gone;
  for (const auto& [name, entry] : folder.entries) {
    gone.insert(gone.end(), name);
  }
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    struct ::stat status{};
    if (name != "." && name != ".." &&
        ::fstatat(::dirfd(directory.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      gone.erase(name);
      note(path, folder, name, status, 0);
    }
  }
  for (const std::string& name : gone) {
    lose(path, folder, name);
  }
  return 0;
}

void WatchedTree::look_at(const std::string& path, const std::string& name, unsigned bits) {
  const auto folder = folders_.find(path);
  if (folder == folders_.end()) {
    return;
  }
  struct ::stat status{};
  if (::lstat(full(path + name).c_str(), &status) == 0) {
    note(path, folder->second, name, status, bits);
  } else if (is_gone(errno)) {
    lose(path, folder->second, name);
  }
}

void WatchedTree::note(const std::string& path, Folder& in, const std::string& name, const struct ::stat& status,
                       unsigned bits) {
  const Entry now = entry_of(status);
  const auto known = in.entries.find(name);
  const std::string below = path + name + "/";
  if (known == in.entries.end()) {
    if (++entries_ > max_watched_entries) {
      --entries_;
      outcome_.too_large = true;
      return;
    }
    in.entries.emplace(name, now);
    change(path + name, ChangeKind::created);
  } else {
    if (known->second.directory && !now.directory) {
      forget(below);
    }
    // A write that changes neither size nor the clock's tick leaves no other trace than its event.
    if (known->second.mark != now.mark || ((bits & Dirty::written) != 0 && !now.directory)) {
      change(path + name, ChangeKind::modified);
    }
    known->second = now;
  }
  // Any event of a directory's name: it may be another one with the number of the old one.
  if (now.directory && recursive_ && (folders_.try_emplace(below).second || bits != 0)) {
    pending_.push_back(below);
  }
}

void WatchedTree::lose(const std::string& path, Folder& in, const std::string& name) {
  const auto known = in.entries.find(name);
  if (known == in.entries.end()) {
    return;
  }
  if (known->second.directory) {
    forget(path + name + "/");
  }
  in.entries.erase(known);
  --entries_;
  change(path + name, ChangeKind::removed);
}

/// The folder and all below it are no more, and so is what they held.
void WatchedTree::forget(const std::string& path) {
  for (auto at = folders_.lower_bound(path); at != folders_.end() && at->first.starts_with(path);) {
    for (const auto& [name, entry] : at->second.entries) {
      change(at->first + name, ChangeKind::removed);
    }
    entries_ -= static_cast<std::int64_t>(at->second.entries.size());
    if (at->second.watch >= 0) {
      outcome_.dropped.emplace_back(at->second.watch, Place{Place::Role::folder, at->first});
    }
    unreadable_ -= at->second.unreadable ? 1 : 0;
    at = folders_.erase(at);
  }
}

}  // namespace rex::files
