// All sessions of this instance, by name, and who they end with. Knows no connection: an owner is an opaque number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shell/session.h"

namespace rex::shell {

inline constexpr std::size_t max_sessions = 1000;
inline constexpr std::size_t default_journal_memory = std::size_t{64} << 20;

/// Identifies whoever a session ends with.
using Owner = std::uint64_t;
inline constexpr Owner nobody = 0;

class Sessions {
 public:
  /// `journal_memory`: bytes of all journals that may be in memory at a time.
  Sessions(Executor executor, Nursery& nursery, Workers& workers, std::size_t journal_memory)
      : executor_(executor),
        nursery_(nursery),
        workers_(workers),
        journal_memory_(std::make_shared<MemoryBudget>(journal_memory)) {}

  [[nodiscard]] std::size_t journal_memory() const { return journal_memory_->size(); }

  /// Starts a session. Its name is taken from the first moment, so that requests sent right behind find it; a start
  /// that fails gives it back. Throws SessionExists, LimitExceeded, StartFailed.
  Task<std::shared_ptr<Session>> create(CreateOptions options, Owner owner, Cancel& cancel);

  /// Throws SessionNotFound, naming the sessions there are.
  [[nodiscard]] std::shared_ptr<Session> find(const std::string& name) const;

  Task<CloseResult> close(std::string name, Milliseconds grace);

  /// Ends all sessions of an owner, trees included, and returns when that is proven or time is up.
  Task<> close_all_of(Owner owner, Milliseconds grace);

  [[nodiscard]] std::vector<std::shared_ptr<Session>> list() const;
  [[nodiscard]] bool contains(const std::string& name) const { return entries_.contains(name); }
  [[nodiscard]] bool is_empty() const { return entries_.empty(); }
  /// Called when the last one has been removed, before whoever removed it hears of it.
  void when_empty(std::function<void()> emptied) { emptied_ = std::move(emptied); }

  /// What happens in them all, for any number of listeners.
  [[nodiscard]] const std::shared_ptr<SessionEvents>& events() const { return events_; }

 private:
  void removed();
  static Task<> close_one(std::shared_ptr<Session> session, Milliseconds grace);

  struct Entry {
    std::shared_ptr<Session> session;
    Owner owner;
  };

  Executor executor_;
  Nursery& nursery_;
  Workers& workers_;
  std::shared_ptr<MemoryBudget> journal_memory_;
  std::shared_ptr<SessionEvents> events_ = std::make_shared<SessionEvents>();
  std::map<std::string, Entry> entries_;
  std::size_t most_ = 0;  // sessions at a time, since memory was last given back
  std::uint64_t next_name_ = 1;
  std::function<void()> emptied_;
};

}  // namespace rex::shell
