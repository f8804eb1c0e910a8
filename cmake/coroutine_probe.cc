// Exits with 0 where a temporary lambda inside a co_await expression is destroyed as often as it was made.
// g++ 12 destroys the captured guest twice, silently (see compiler.cmake).
#include <coroutine>

int alive = 0;

struct Guest {
  Guest() { ++alive; }
  Guest(const Guest&) { ++alive; }
  ~Guest() { --alive; }
};

struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  bool await_ready() { return true; }
  void await_suspend(std::coroutine_handle<>) {}
  void await_resume() {}
};

template <class Visitor>
Task visit(Visitor visitor) {
  visitor();
  co_return;
}

Task host() {
  Guest guest;
  co_await visit([guest] {});
}

int main() {
  host();
  return alive == 0 ? 0 : 1;
}
