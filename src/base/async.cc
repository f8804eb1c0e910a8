#include "base/async.h"

#include <fcntl.h>

#include <algorithm>
#include <asio/async_result.hpp>
#include <asio/co_spawn.hpp>
#include <asio/execution_context.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <deque>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace rex {
namespace {

/// What goes on soon, in the order in which it was told to. In a queue of ours, for asio would look for I/O between any
/// two, each time with a system call, and see to all deadlines that have come before it looks at all: so they are taken
/// a few at a time (test_amounts.py, K08).
class Soon : public asio::execution_context::service {
 public:
  using key_type = Soon;
  static inline asio::execution_context::id id;

  explicit Soon(asio::execution_context& context) : service(context) {}

  static Soon& of(const Executor& executor) { return asio::use_service<Soon>(executor.context()); }

  void add(const Executor& executor, asio::any_completion_handler<void()> act) {
    if (!over_) {
      waiting_.push_back(std::move(act));
      take_later(executor);
    }
  }

  /// Calls `act`, and then what that and others have added.
  template <class Act>
  void turn(const Executor& executor, Act act) {
    struct Rest {  // also where something escapes
      ~Rest() {
        soon.is_turn_ = false;
        soon.take_later(executor);
      }
      Soon& soon;
      const Executor& executor;
    };
    is_turn_ = true;
    const Rest rest{*this, executor};
    act();
    for (int n = 0; n < at_once && !waiting_.empty(); ++n) {
      auto next = std::move(waiting_.front());
      waiting_.pop_front();
      std::move(next)();
    }
  }

 private:
  static constexpr int at_once = 64;

  void take_later(const Executor& executor) {
    if (!waiting_.empty() && !std::exchange(is_turn_, true)) {
      asio::post(executor, [this, executor] { turn(executor, [] {}); });
    }
  }

  void shutdown() override {
    over_ = true;
    const auto never_called = std::exchange(waiting_, {});
  }

  std::deque<asio::any_completion_handler<void()>> waiting_;
  bool is_turn_ = false;  // there is one, or is to come
  bool over_ = false;
};

}  // namespace

TimePoint deadline_after(std::optional<Milliseconds> delay) {
  if (!delay) {
    return never;
  }
  const TimePoint now = Clock::now();
  return *delay < std::chrono::duration_cast<Milliseconds>(never - now) ? now + *delay : never;
}

std::int64_t milliseconds_since(TimePoint begin) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - begin).count();
}

void call_soon(Executor executor, asio::any_completion_handler<void()> act) {
  Soon::of(executor).add(executor, std::move(act));
}

void spawn(Executor executor, Task<> task) {
  spawn(executor, std::move(task), [](const std::exception_ptr& escaped) {
    if (escaped) {
      std::rethrow_exception(escaped);
    }
  });
}

void spawn(Executor executor, Task<> task, std::function<void(std::exception_ptr)> done) {
  asio::co_spawn(executor, std::move(task), std::move(done));
}

Waiter::~Waiter() {
  if (alive_) {
    *alive_ = nullptr;
  }
  for (Event* event : events_) {
    std::erase(event->waiters_, this);
  }
}

void Waiter::subscribe(Event& event) {
  events_.push_back(&event);
  event.waiters_.push_back(this);
}

void Waiter::wake() {
  woken_ = true;
  resume();
}

void Waiter::resume() {
  if (resume_) {
    timer_.cancel();
    call_soon(timer_.get_executor(), std::exchange(resume_, nullptr));
  }
}

Task<> Waiter::until(TimePoint deadline) {
  if (!std::exchange(woken_, false)) {
    auto park = [this, deadline](auto handler) {
      resume_ = std::move(handler);
      if (deadline != never) {
        timer_.expires_at(deadline);
        if (!alive_) {
          alive_ = std::make_shared<Waiter*>(this);
        }
        timer_.async_wait([alive = alive_](const std::error_code& error) {
          if (!error && *alive != nullptr) {
            (*alive)->wake();
          }
        });
      }
    };
    const asio::use_awaitable_t<Executor> token;
    co_await asio::async_initiate<const asio::use_awaitable_t<Executor>, void()>(std::move(park), token);
    woken_ = false;
  }
}

Event::~Event() {
  for (Waiter* waiter : waiters_) {
    std::erase(waiter->events_, this);
    waiter->wake();
  }
}

void Event::notify() {
  for (Waiter* waiter : waiters_) {
    waiter->wake();
  }
}

AsyncFd::AsyncFd(Executor executor, Fd fd) : descriptor_(executor), fd_(fd.get()) {
  std::error_code failed;
  descriptor_.assign(fd_, failed);
  if (failed) {
    throw os_error("cannot watch a descriptor", failed.value());
  }
  [[maybe_unused]] const int ours = fd.release();
  const int flags = fcntl(fd_, F_GETFL);
  if ((flags & O_NONBLOCK) == 0) {
    fcntl(fd_, F_SETFL, flags | O_NONBLOCK);
  }
}

Task<bool> AsyncFd::wait(asio::posix::descriptor_base::wait_type what) {
  if (!descriptor_.is_open()) {
    co_return false;
  }
  // What whoever waits here wakes goes on in the same turn of the loop. After close() the answer is operation_aborted;
  // this object may be gone by then, so nothing of it is touched.
  auto park = [this, what](auto handler) {
    const Executor executor = descriptor_.get_executor();
    descriptor_.async_wait(what, [executor, handler = std::move(handler)](const std::error_code& error) mutable {
      Soon::of(executor).turn(executor, [&] { std::move(handler)(!error); });
    });
  };
  const asio::use_awaitable_t<Executor> token;
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<Executor>, void(bool)>(std::move(park), token);
}

Task<bool> AsyncFd::readable() { return wait(asio::posix::descriptor_base::wait_read); }

Task<bool> AsyncFd::writable() { return wait(asio::posix::descriptor_base::wait_write); }

Task<bool> AsyncFd::broken() { return wait(asio::posix::descriptor_base::wait_error); }

void AsyncFd::close() {
  fd_ = -1;  // the number may be somebody else's a moment later
  std::error_code ignored;
  descriptor_.close(ignored);
}

Workers::~Workers() {
  if (pool_) {
    pool_->stop();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

/// As many as there may be: a pool that makes its own threads waits for ever for the first when there can be no second
/// (test_injected.py, L10).
void Workers::begin() {
  pool_.emplace(0);
  threads_.reserve(most_threads);
  while (threads_.size() < most_threads) {
    try {
      threads_.emplace_back([this] { pool_->attach(); });
    } catch (const std::system_error& error) {
      if (threads_.empty()) {
        pool_.reset();
        throw os_error("cannot start a thread", error.code().value());
      }
      break;
    }
  }
}

Task<> Workers::run(std::function<void()> work) {
  if (!pool_) {
    begin();
  }
  struct Outcome {
    explicit Outcome(Executor executor) : waiter(executor) {}
    Waiter waiter;
    bool done = false;
    std::exception_ptr failure;
  };
  const auto outcome = std::make_shared<Outcome>(executor_);
  auto job = [outcome = outcome, work = std::move(work), executor = executor_]() mutable {
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    // With all that the job holds: a timer or an event that ended in this thread would race with the loop's.
    auto tell = [outcome = std::move(outcome), work = std::move(work), failure] {
      outcome->failure = failure;
      outcome->done = true;
      outcome->waiter.wake();
    };
    asio::post(executor, std::move(tell));
  };
  asio::post(*pool_, std::move(job));
  const asio::executor_work_guard<Executor> guard(executor_);
  while (!outcome->done) {
    co_await outcome->waiter.until(never);
  }
  if (outcome->failure) {
    std::rethrow_exception(outcome->failure);
  }
}

void Cancel::request(Wish wish) {
  if (wish > wish_) {
    wish_ = wish;
    for (Listener* listener : listeners_) {
      listener->act_();
    }
    changed_.notify();
  }
}

Cancel::Listener::Listener(Cancel& cancel, std::function<void()> act) : cancel_(cancel), act_(std::move(act)) {
  cancel_.listeners_.push_back(this);
  if (cancel_) {
    act_();
  }
}

Cancel::Listener::~Listener() { std::erase(cancel_.listeners_, this); }

}  // namespace rex
