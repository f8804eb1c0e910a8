// All coroutine craft: what a task is, how one is started, how one waits. Nothing else in the program spells out
// asio's coroutine machinery.
//
// There is one loop thread. A task is an asio awaitable on that loop. House rules (a scar of g++ 12, which destroys
// such temporaries twice): coroutines are named functions or members, take their parameters by value, and a lambda or
// aggregate is named before it is moved into a co_await expression.
#pragma once

#include <asio/any_completion_handler.hpp>
#include <asio/awaitable.hpp>
#include <asio/basic_waitable_timer.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/basic_stream_descriptor.hpp>
#include <asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace rex {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Milliseconds = std::chrono::milliseconds;
using Loop = asio::io_context;
using Executor = asio::io_context::executor_type;
using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, Executor>;

/// A coroutine on the loop.
template <class T = void>
using Task = asio::awaitable<T, Executor>;

/// Never comes. A deadline of `never` costs no timer.
inline constexpr TimePoint never = TimePoint::max();

/// `now + delay`, or `never` when there is no delay; a sum past the clock's range is `never` too.
TimePoint deadline_after(std::optional<Milliseconds> delay);

/// Whole milliseconds from `begin` until now.
std::int64_t milliseconds_since(TimePoint begin);

/// Calls `act` on the loop, soon: behind all that was told to go on before. Only from the loop's own thread.
/// Not called post: a call that names no namespace found asio's, which is another queue.
void call_soon(Executor executor, asio::any_completion_handler<void()> act);

/// Starts `task` on the loop. Nothing may escape from it: what does is a bug, and leaves the loop's run().
/// `task` must own (by value or shared_ptr) all it uses.
void spawn(Executor executor, Task<> task);

/// Starts `task` on the loop. `done` is called on the loop with what escaped from it, or null.
/// `task` must own (by value or shared_ptr) all it uses.
void spawn(Executor executor, Task<> task, std::function<void(std::exception_ptr)> done);

class Event;

/// A place where one coroutine waits until somebody wakes it or a time comes.
/// A wake that comes while nobody waits is remembered once, so "check, then wait" loses nothing.
/// Subscribe it to any number of Events. Not copyable or movable; lives in the waiting coroutine's frame.
class Waiter {
 public:
  explicit Waiter(Executor executor) : timer_(executor) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  void subscribe(Event& event);
  void wake();
  /// Returns at the next wake, or at `deadline`; spurious returns are allowed, so callers loop on a condition.
  Task<> until(TimePoint deadline);

 private:
  friend class Event;
  void resume();

  Timer timer_;
  asio::any_completion_handler<void()> resume_;
  bool woken_ = false;
  std::vector<Event*> events_;
  // A timer that has already expired cannot be cancelled: its handler may run after this Waiter is gone.
  std::shared_ptr<Waiter*> alive_;
};

/// Something that happens again and again. Wakes every Waiter that has subscribed.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();
  void notify();

 private:
  friend class Waiter;
  std::vector<Waiter*> waiters_;
};

/// Owns a descriptor that is read and written with plain system calls, which never block: it is made non-blocking,
/// and so is whatever shares its open file description. Waits for it on the loop.
class AsyncFd {
 public:
  AsyncFd(Executor executor, Fd fd);
  AsyncFd(const AsyncFd&) = delete;
  AsyncFd& operator=(const AsyncFd&) = delete;

  /// -1 once closed.
  [[nodiscard]] int fd() const { return fd_; }
  /// True when a read would not block (data, end of file or an error); false once this was closed or destroyed.
  Task<bool> readable();
  Task<bool> writable();
  /// True when the other end hung up.
  Task<bool> broken();
  /// Ends all waits with false.
  void close();

 private:
  Task<bool> wait(asio::posix::descriptor_base::wait_type what);

  asio::posix::basic_stream_descriptor<Executor> descriptor_;
  int fd_;  // the same; asio asks for it only of what it may change
};

/// A few threads for what may block and cannot be waited for on the loop: file systems (a slow disk's fsync, a hung
/// mount). Work given to them must touch nothing of the loop's.
class Workers {
 public:
  explicit Workers(Executor executor) : executor_(executor) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  /// Runs `work` on a worker; what escapes from it is thrown here. The caller must keep what `work` refers to. Throws
  /// OsError where there can be no thread.
  Task<> run(std::function<void()> work);

 private:
  static constexpr std::size_t most_threads = 4;

  void begin();

  Executor executor_;
  std::optional<asio::thread_pool> pool_;  // made for the first work
  std::vector<std::thread> threads_;
};

/// The wish of a client that a request should end early. Owned by the request; handlers that wait subscribe to it.
class Cancel {
 public:
  enum class Wish { none, stop_waiting, stop_work };

  [[nodiscard]] Wish wish() const { return wish_; }
  explicit operator bool() const { return wish_ != Wish::none; }
  /// The first wish holds, except that stop_work outranks stop_waiting.
  void request(Wish wish);
  Event& changed() { return changed_; }

  /// Calls `act` at the first wish, at once if there is one; forgotten when it is destroyed.
  class Listener {
   public:
    Listener(Cancel& cancel, std::function<void()> act);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    friend class Cancel;
    Cancel& cancel_;
    std::function<void()> act_;
  };

 private:
  std::vector<Listener*> listeners_;
  Wish wish_ = Wish::none;
  Event changed_;
};

}  // namespace rex
