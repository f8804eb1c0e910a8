#include "files/watch.h"

#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace rex::files {
namespace {

// Changes that belong together come together: a look waits until it was quiet for a moment, but not for ever.
constexpr Milliseconds quiet{20};
constexpr Milliseconds longest_wait{250};

/// A file system that is changed without our kernel's knowledge.
bool is_changed_by_others(const std::string& path) {
  constexpr std::uint32_t nfs = 0x6969, smb = 0x517b, cifs = 0xff534d42, smb2 = 0xfe534d42, fuse = 0x65735546;
  constexpr std::uint32_t ceph = 0x00c36400, lustre = 0x0bd00bd0, gfs2 = 0x01161970, ocfs2 = 0x7461636f,
                          afs = 0x5346414f;
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) {
    return false;
  }
  for (const std::uint32_t type :
       {nfs, smb, cifs, smb2, fuse, ceph, lustre, gfs2, ocfs2, afs, std::uint32_t{V9FS_MAGIC}}) {
    if (static_cast<std::uint32_t>(status.f_type) == type) {
      return true;
    }
  }
  return false;
}

}  // namespace

Watch::Watch(WatchRoom room, std::string path, bool recursive)
    : room_(std::move(room)),
      path_(path),
      tree_(
          std::move(path), recursive,
          [this](const std::string& at, std::uint32_t events) {
            errno = no_inotify_;
            return inotify_ < 0 ? -1 : inotify_add_watch(inotify_, at.c_str(), events);
          },
          *room_.entries) {
  user_.event = [this](const Place& place, std::string_view name, std::uint32_t mask) { event(place, name, mask); };
  user_.unsure = [this](const Place& place) {
    dirty_.root = dirty_.root || place.role != Place::Role::folder;
    if (place.role == Place::Role::folder) {
      dirty_.add_all(place.text);
    }
    touched();
  };
  user_.overflow = [this] {
    dirty_.everything = overflow_ = true;
    touched();
  };
}

Watch::~Watch() { room_.inotify->drop_all(&user_); }

Task<> Watch::begin() {
  Dirty nothing;
  const WatchedTree::Outcome outcome = co_await look(std::move(nothing), true);
  if (stopped_) {
    throw Error(Fault::RequestCancelled, "cancelled");
  }
  if (outcome.blind != 0) {
    poll_because(error_name(outcome.blind));
  }
  polling_is_news_ = false;  // it is in the answer
}

void Watch::start() { spawn(room_.executor, run(shared_from_this())); }

void Watch::stop() {
  stopped_ = true;
  tree_.stop();
  room_.inotify->drop_all(&user_);
  wake_.notify();
}

Task<> Watch::run(std::shared_ptr<Watch> self) {
  Watch& w = *self;
  Waiter waiter(w.room_.executor);
  waiter.subscribe(w.wake_);
  TimePoint looked = Clock::now();
  while (!w.stopped_) {
    while (!w.stopped_ && !w.dirty_.any()) {
      const TimePoint next = w.polling_ ? looked + w.pause_ : never;
      w.dirty_.everything = Clock::now() >= next;
      if (!w.dirty_.everything) {
        co_await waiter.until(next);
      }
    }
    const TimePoint latest = Clock::now() + longest_wait;
    for (TimePoint calm = latest; !w.stopped_ && Clock::now() < (calm = std::min(latest, w.last_event_ + quiet));) {
      co_await waiter.until(calm);
    }
    if (w.stopped_) {
      break;
    }
    Dirty dirty = std::exchange(w.dirty_, {});
    const TimePoint begin = Clock::now();
    const WatchedTree::Outcome outcome = co_await w.look(std::move(dirty), false);
    looked = Clock::now();
    // What takes long is done seldom.
    w.pause_ = std::max(Milliseconds(poll_interval_ms), 10 * std::chrono::duration_cast<Milliseconds>(looked - begin));
    w.tell(outcome);
  }
}

/// A look in a worker. What is watched from then on is registered before anything else is done.
Task<WatchedTree::Outcome> Watch::look(Dirty dirty, bool first) {
  const std::shared_ptr<Inotify> inotify = room_.inotify;
  no_inotify_ = inotify->open();
  inotify_ = inotify->fd();
  WatchedTree::Outcome outcome;
  bool remote = false;
  auto work = [&] {
    remote = first && is_changed_by_others(path_);
    outcome = first ? tree_.begin() : tree_.look(dirty);
  };
  inotify->begin_look();
  std::exception_ptr failure;
  try {
    co_await room_.workers.run(std::move(work));
  } catch (...) {
    failure = std::current_exception();
    outcome = tree_.unfinished();
  }
  register_watches(outcome);
  if (failure || stopped_) {
    inotify->drop_all(&user_);
  }
  inotify->end_look();
  if (failure) {
    std::rethrow_exception(failure);
  }
  if (remote) {
    poll_because("remote");
  }
  co_return outcome;
}

void Watch::register_watches(const WatchedTree::Outcome& outcome) {
  for (const auto& [watch, place] : outcome.added) {
    room_.inotify->assign(watch, place, &user_);
  }
  for (const auto& [watch, place] : outcome.dropped) {
    room_.inotify->drop(watch, place, &user_);
  }
}

void Watch::touched() {
  last_event_ = Clock::now();
  wake_.notify();
}

void Watch::event(const Place& place, std::string_view name, std::uint32_t mask) {
  constexpr std::uint32_t names = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
  constexpr std::uint32_t self = IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT;
  if (place.role == Place::Role::ancestor) {
    if ((mask & names) == 0 || name != place.text) {
      return;
    }
    dirty_.root = true;
  } else if (place.role == Place::Role::self) {
    dirty_.root = true;
    dirty_.root_written = dirty_.root_written || (mask & IN_MODIFY) != 0;
  } else if (!name.empty()) {
    dirty_.add(place.text, name, Dirty::looked | ((mask & IN_MODIFY) != 0 ? Dirty::written : 0));
  } else if (place.text.empty() && (mask & self) != 0) {
    dirty_.root = true;
  } else {
    return;
  }
  touched();
}

void Watch::tell(const WatchedTree::Outcome& outcome) {
  for (const PathChange& change : outcome.changes) {
    add(change);
  }
  overflow_ = overflow_ || outcome.too_large;
  if (outcome.blind != 0) {
    poll_because(error_name(outcome.blind));
  }
  if (has_news()) {
    news_.notify();
  }
}

/// What two changes of one path come to.
void Watch::add(const PathChange& change) {
  const auto known = changes_.find(change.path);
  if (known == changes_.end()) {
    if (changes_.size() < max_pending_changes) {
      changes_.emplace(change.path, change.kind);
    } else {
      changes_.clear();
      overflow_ = true;
    }
    return;
  }
  const bool was_new = known->second == ChangeKind::created;
  if (change.kind == ChangeKind::removed) {
    if (was_new) {
      changes_.erase(known);
    } else {
      known->second = ChangeKind::removed;
    }
  } else if (!was_new) {
    known->second = ChangeKind::modified;
  }
}

void Watch::poll_because(std::string reason) {
  if (!polling_) {
    polling_ = std::move(reason);
    polling_is_news_ = true;
  }
}

Watch::News Watch::take(std::size_t bytes) {
  News news;
  news.overflow = std::exchange(overflow_, false);
  if (std::exchange(polling_is_news_, false)) {
    news.polling = polling_;
  }
  std::size_t taken = 0;
  while (!changes_.empty() && taken < bytes) {
    auto change = changes_.extract(changes_.begin());
    taken += change.key().size() + path_.size() + 64;
    news.changes.push_back({std::move(change.key()), change.mapped()});
  }
  return news;
}

}  // namespace rex::files
