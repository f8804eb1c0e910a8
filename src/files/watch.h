// `file/watch`: what changes under a path, put together for whoever reads slower than it changes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "files/inotify.h"
#include "files/watched_tree.h"

namespace rex::files {

inline constexpr std::size_t max_pending_changes = 10'000;  // `watch.changes`
inline constexpr std::int64_t poll_interval_ms = 2'000;     // `watch.pollMs`

/// What the watches of an instance share. `workers` must outlive the loop's turns; looks may take long.
struct WatchRoom {
  Executor executor;
  Workers& workers;
  std::shared_ptr<Inotify> inotify;
  std::shared_ptr<std::atomic<std::int64_t>> entries;
};

/// Events say where to look, a look in a worker says what is so. So every change is told as what it comes to: a file
/// written, renamed over or removed and made anew between two looks is `modified`, one that came and went is nothing.
/// The path may go and come back, also with the directories above it.
///
/// Where there are no events it looks from time to time, and says why: on file systems that others change, where the
/// user has no inotify instances or watches left.
class Watch : public std::enable_shared_from_this<Watch> {
 public:
  struct News {
    std::vector<PathChange> changes;  // by path
    bool overflow = false;            // others were lost before these: what is there now must be asked for
    std::optional<std::string> polling;
  };

  Watch(WatchRoom room, std::string path, bool recursive);
  ~Watch();

  /// Everything after this is told. Throws OsError, LimitExceeded, or RequestCancelled after stop().
  Task<> begin();
  /// Looks from now on, until stop().
  void start();
  void stop();

  /// Changes from before it began were not seen: told as an overflow.
  void has_missed() { overflow_ = true; }
  [[nodiscard]] bool has_news() const { return !changes_.empty() || overflow_ || polling_is_news_; }
  /// Up to about `bytes` of it.
  News take(std::size_t bytes);
  /// Fires when there is some.
  Event& news() { return news_; }

  /// Why it looks from time to time; absent: it does not.
  [[nodiscard]] const std::optional<std::string>& polling() const { return polling_; }
  [[nodiscard]] std::int64_t unreadable() const { return tree_.unreadable(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static Task<> run(std::shared_ptr<Watch> self);
  Task<WatchedTree::Outcome> look(Dirty dirty, bool first);
  void event(const Place& place, std::string_view name, std::uint32_t mask);
  void touched();
  void register_watches(const WatchedTree::Outcome& outcome);
  void tell(const WatchedTree::Outcome& outcome);
  void add(const PathChange& change);
  void poll_because(std::string reason);

  WatchRoom room_;
  std::string path_;
  Inotify::User user_;
  int inotify_ = -1;  // in this look, or why there is none
  int no_inotify_ = 0;
  WatchedTree tree_;  // a worker's, while it looks
  Dirty dirty_;
  Event wake_;
  TimePoint last_event_{};
  Milliseconds pause_{poll_interval_ms};
  bool stopped_ = false;

  std::map<std::string, ChangeKind> changes_;  // not taken yet, at most max_pending_changes
  bool overflow_ = false;
  std::optional<std::string> polling_;
  bool polling_is_news_ = false;
  Event news_;
};

}  // namespace rex::files
