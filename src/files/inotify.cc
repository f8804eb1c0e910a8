#include "files/inotify.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rex::files {

int Inotify::open() {
  if (!events_) {
    Fd fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!fd) {
      return errno;
    }
    events_ = std::make_shared<AsyncFd>(executor_, std::move(fd));
    spawn(executor_, pump(shared_from_this(), events_));
  }
  return 0;
}

void Inotify::end_look() {
  if (--looks_ == 0) {
    early_.clear();
    retire();
  }
}

void Inotify::assign(int watch, const Place& place, User* user) {
  places_[watch].emplace_back(place, user);
  unused_.erase(watch);
  if (early_.contains(watch)) {
    user->unsure(place);
  }
}

void Inotify::drop(int watch, const Place& place, User* user) {
  const auto found = places_.find(watch);
  if (found == places_.end()) {
    return;  // the kernel has taken it back
  }
  auto& all = found->second;
  if (const auto at = std::find(all.begin(), all.end(), std::pair(place, user)); at != all.end()) {
    all.erase(at);
  }
  if (all.empty()) {
    unused_.insert(watch);
    places_.erase(found);
  }
  retire();
}

void Inotify::drop_all(User* user) {
  for (auto at = places_.begin(); at != places_.end();) {
    std::erase_if(at->second, [user](const auto& one) { return one.second == user; });
    if (at->second.empty()) {
      unused_.insert(at->first);
      at = places_.erase(at);
    } else {
      ++at;
    }
  }
  retire();
}

/// Not while a look goes on: it may have been given the same descriptor.
void Inotify::retire() {
  if (looks_ > 0) {
    return;
  }
  for (const int watch : std::exchange(unused_, {})) {
    inotify_rm_watch(events_->fd(), watch);
  }
  if (places_.empty() && events_) {
    events_->close();  // nobody watches: give it back
    events_.reset();
  }
}

Task<> Inotify::pump(std::shared_ptr<Inotify> self, std::shared_ptr<AsyncFd> events) {
  alignas(inotify_event) char buffer[64 << 10];
  while (co_await events->readable()) {
    const ssize_t size = ::read(events->fd(), buffer, sizeof buffer);
    if (size > 0) {
      self->take(buffer, static_cast<std::size_t>(size));
    }
  }
}

void Inotify::take(const char* bytes, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    inotify_event event{};
    std::memcpy(&event, bytes + at, sizeof event);
    const char* name = bytes + at + sizeof event;
    give(event.wd, std::string_view(name, strnlen(name, event.len)), event.mask);
    at += sizeof event + event.len;
  }
}

void Inotify::give(int watch, std::string_view name, std::uint32_t mask) {
  if ((mask & IN_Q_OVERFLOW) != 0) {
    std::set<User*> users;
    for (const auto& [_, all] : places_) {
      for (const auto& [place, user] : all) {
        users.insert(user);
      }
    }
    for (User* user : users) {
      user->overflow();
    }
    return;
  }
  if (looks_ > 0) {
    early_.insert(watch);
  }
  const auto found = places_.find(watch);
  if (found == places_.end()) {
    return;
  }
  for (const auto& [place, user] : found->second) {
    user->event(place, name, mask);
  }
  if ((mask & IN_IGNORED) != 0) {
    places_.erase(found);
  }
}

}  // namespace rex::files
