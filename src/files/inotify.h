// The one inotify instance of the program: a user has 128 of them in all. Knows what its watches are for only as far as
// to give each event to whom it concerns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/async.h"
#include "files/watched_tree.h"

namespace rex::files {

/// Belongs to the loop. There is a descriptor while somebody watches.
class Inotify : public std::enable_shared_from_this<Inotify> {
 public:
  /// Who has watches. Must call drop_all() before it goes.
  struct User {
    std::function<void(const Place&, std::string_view name, std::uint32_t mask)> event;
    std::function<void(const Place&)> unsure;  // there may have been events that came too early
    std::function<void()> overflow;            // the kernel has dropped events
  };

  explicit Inotify(Executor executor) : executor_(executor) {}

  /// 0, or the errno of why there is none: EMFILE where the user has no more of them.
  int open();
  /// -1 where there is none.
  [[nodiscard]] int fd() const { return events_ ? events_->fd() : -1; }

  /// Between these two a worker may add watches to fd(), and all it got is assigned before the second.
  void begin_look() { ++looks_; }
  void end_look();
  void assign(int watch, const Place& place, User* user);
  void drop(int watch, const Place& place, User* user);
  void drop_all(User* user);

 private:
  static Task<> pump(std::shared_ptr<Inotify> self, std::shared_ptr<AsyncFd> events);
  void take(const char* bytes, std::size_t size);
  void give(int watch, std::string_view name, std::uint32_t mask);
  void retire();

  Executor executor_;
  std::shared_ptr<AsyncFd> events_;
  // An inode has one descriptor, whoever watches it.
  std::map<int, std::vector<std::pair<Place, User*>>> places_;
  int looks_ = 0;         // going on in workers, whose descriptors are not registered yet
  std::set<int> early_;   // that had events since the first of these began
  std::set<int> unused_;  // to be given back when the last one has ended
};

}  // namespace rex::files
