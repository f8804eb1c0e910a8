// What a watched path held when it was looked at last, and what a look finds changed since. Done by a worker, because a
// mount may hang. Knows inotify by the function that adds a watch, and nothing of the loop.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace rex::files {

inline constexpr std::int64_t max_watched_entries = 500'000;  // `watch.entries`, of all watches of an instance

enum class ChangeKind { created, modified, removed };

struct PathChange {
  std::string path;  // relative to what is watched; "" is that itself
  ChangeKind kind;
};

/// What a watch descriptor is for.
struct Place {
  enum class Role { folder, ancestor, self };
  Role role;
  std::string text;  // of a folder: its path relative to the root, "" or ending in a slash; of an ancestor: the name
                     // in it that the path goes through
  bool operator==(const Place&) const = default;
};

/// What may have changed.
struct Dirty {
  /// Bits of a name.
  enum : unsigned { looked = 1, written = 2 };
  static constexpr std::size_t max_names = 1000;  // of a folder; with more, all of it is looked at

  bool everything = false;
  bool root = false;
  bool root_written = false;
  std::map<std::string, std::optional<std::map<std::string, unsigned>>> folders;  // none: all names in it

  [[nodiscard]] bool any() const { return everything || root || !folders.empty(); }
  void add(const std::string& folder, std::string_view name, unsigned bits);
  void add_all(const std::string& folder) { folders[folder] = std::nullopt; }
};

class WatchedTree {
 public:
  struct Outcome {
    std::vector<PathChange> changes;
    std::vector<std::pair<int, Place>> added;    // watch descriptors and what they are for
    std::vector<std::pair<int, Place>> dropped;  // to be forgotten after these were added
    int blind = 0;                               // why something is not watched: an errno, as ENOSPC
    bool too_large = false;                      // there is more than max_watched_entries
  };

  /// `add_watch(path, events)` is inotify_add_watch(2) with its errno. `entries` counts those of all trees.
  WatchedTree(std::string path, bool recursive, std::function<int(const std::string&, std::uint32_t)> add_watch,
              std::atomic<std::int64_t>& entries);
  ~WatchedTree();
  WatchedTree(const WatchedTree&) = delete;
  WatchedTree& operator=(const WatchedTree&) = delete;

  /// The first look; its changes mean nothing. Throws OsError where there is nothing or it cannot be read.
  Outcome begin();
  Outcome look(const Dirty& dirty);
  /// What a look that threw had come to.
  Outcome unfinished() { return std::exchange(outcome_, {}); }
  /// From any thread: a look that goes on ends soon, and no other is of use.
  void stop() { stopped_ = true; }
  /// Directories that could not be read when they were looked at last.
  [[nodiscard]] std::int64_t unreadable() const { return unreadable_; }

 private:
  struct Entry {
    std::uint64_t mark;
    bool directory;
  };
  struct Folder {
    int watch = -1;
    bool unreadable = false;
    std::map<std::string, Entry> entries;
  };

  static Entry entry_of(const struct ::stat& status);
  [[nodiscard]] std::string full(const std::string& relative) const;
  void look_at_root(bool written);
  void watch_ancestors();
  void scan_pending();
  int scan(const std::string& folder);
  int watch(const std::string& path, std::uint32_t events, Place place, int before);
  void look_at(const std::string& folder, const std::string& name, unsigned bits);
  void note(const std::string& folder, Folder& in, const std::string& name, const struct ::stat& status, unsigned bits);
  void lose(const std::string& folder, Folder& in, const std::string& name);
  void forget(const std::string& folder);
  void change(std::string path, ChangeKind kind) { outcome_.changes.push_back({std::move(path), kind}); }

  std::string path_;
  bool recursive_;
  std::function<int(const std::string&, std::uint32_t)> add_watch_;
  std::atomic<std::int64_t>& entries_;
  std::atomic<bool> stopped_ = false;

  std::optional<Entry> root_;
  int self_ = -1;  // a watch on what the path leads to, where that is no directory
  std::vector<std::pair<int, Place>> ancestors_;
  std::map<std::string, Folder> folders_;  // by relative path, "" or ending in a slash
  std::vector<std::string> pending_;       // folders to be scanned
  std::int64_t unreadable_ = 0;
  Outcome outcome_;
};

}  // namespace rex::files
