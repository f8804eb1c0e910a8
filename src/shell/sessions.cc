#include "shell/sessions.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rex::shell {
namespace {

// From so many sessions on, their memory is worth giving back.
constexpr std::size_t many_sessions = 64;

}  // namespace

Task<std::shared_ptr<Session>> Sessions::create(CreateOptions options, Owner owner, Cancel& cancel) {
  if (entries_.size() >= max_sessions) {
    throw limit_exceeded("sessions", static_cast<std::int64_t>(entries_.size()) + 1, max_sessions);
  }
  while (options.session.empty()) {
    std::string name = "s" + std::to_string(next_name_++);
    if (!entries_.contains(name)) {
      options.session = std::move(name);
    }
  }
  const std::string name = options.session;
  if (entries_.contains(name)) {
    throw Error(Fault::SessionExists, "session " + printable(name) + " exists already");
  }
  const Shared shared{nursery_, workers_, journal_memory_, events_};
  const auto session = std::make_shared<Session>(executor_, shared, std::move(options));
  entries_[name] = {session, owner};
  most_ = std::max(most_, entries_.size());
  try {
    co_await session->start(cancel);
  } catch (...) {
    if (const auto at = entries_.find(name); at != entries_.end() && at->second.session == session) {
      entries_.erase(at);
      removed();
    }
    throw;
  }
  co_return session;
}

std::shared_ptr<Session> Sessions::find(const std::string& name) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) {
    std::string there;
    for (const auto& [other, entry] : entries_) {
      there += (there.empty() ? "" : ", ") + printable(other, 64);
      if (there.size() > 200) {
        there += ", …";
        break;
      }
    }
    throw Error(Fault::SessionNotFound, "there is no session " + printable(name) +
                                            (there.empty() ? "; none has been created" : "; there are: " + there));
  }
  return at->second.session;
}

Task<CloseResult> Sessions::close(std::string name, Milliseconds grace) {
  const std::shared_ptr<Session> session = find(name);
  CloseResult result = co_await session->close(grace);
  if (const auto at = entries_.find(name); at != entries_.end() && at->second.session == session) {
    entries_.erase(at);
    removed();
  }
  co_return result;
}

/// The allocator keeps what it was given back in small pieces: 19 of 33 MB after a thousand sessions.
void Sessions::removed() {
  if (most_ >= many_sessions && entries_.size() <= most_ / 2) {
    malloc_trim(0);
    most_ = entries_.size();
  }
  if (entries_.empty() && emptied_) {
    emptied_();
  }
}

Task<> Sessions::close_all_of(Owner owner, Milliseconds grace) {
  std::vector<std::shared_ptr<Session>> mine;
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.owner == owner) {
      mine.push_back(at->second.session);
      at = entries_.erase(at);
    } else {
      ++at;
    }
  }
  Waiter waiter(executor_);
  std::size_t open = mine.size();
  for (const std::shared_ptr<Session>& session : mine) {
    spawn(executor_, close_one(session, grace), [&open, &waiter](std::exception_ptr) {
      --open;
      waiter.wake();
    });
  }
  while (open != 0) {
    co_await waiter.until(never);
  }
  if (!mine.empty()) {
    removed();
  }
}

Task<> Sessions::close_one(std::shared_ptr<Session> session, Milliseconds grace) { co_await session->close(grace); }

std::vector<std::shared_ptr<Session>> Sessions::list() const {
  std::vector<std::shared_ptr<Session>> all;
  for (const auto& [name, entry] : entries_) {
    all.push_back(entry.session);
  }
  return all;
}

}  // namespace rex::shell
