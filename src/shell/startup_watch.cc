#include "shell/startup_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace rex::shell {

StartupWatch::StartupWatch(const std::vector<std::string>& candidates) {
  for (const std::string& name : candidates) {
    if (access(name.c_str(), F_OK) != 0) {
      continue;
    }
    if (access(name.c_str(), R_OK) != 0) {
      unreadable_.push_back(name);
      continue;
    }
    if (!events_) {
      events_ = Fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    }
    const int watch = events_ ? inotify_add_watch(events_.get(), name.c_str(), IN_OPEN) : -1;
    blind_ = blind_ || watch < 0;
    if (watch >= 0) {
      names_.try_emplace(watch, name);  // two names of one file are one watch
    }
  }
}

const std::vector<std::string>& StartupWatch::opened() {
  alignas(inotify_event) char buffer[4096];
  ssize_t n = 0;
  while (events_ && (n = read(events_.get(), buffer, sizeof buffer)) > 0) {
    for (ssize_t at = 0; at < n;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof *event + event->len);
      const auto known = names_.find(event->wd);
      if (known == names_.end() || (event->mask & IN_OPEN) == 0 || (event->mask & IN_ISDIR) != 0) {
        continue;
      }
      const std::string name = known->second + (event->len > 0 ? event->name : "");
      if (std::find(opened_.begin(), opened_.end(), name) == opened_.end()) {
        opened_.push_back(name);
      }
    }
  }
  return opened_;
}

}  // namespace rex::shell
