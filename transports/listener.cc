#include "transports/listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace rex::transports {
namespace {

// Without descriptors or memory a client cannot be taken, yet it stays there to be taken: not again at once.
constexpr Milliseconds scarcity{100};

std::unique_ptr<Transport> taken(Executor executor, Fd client, Take take) {
  try {
    return take(executor, std::move(client));
  } catch (const Error&) {  // no descriptor for it: its own loss, not the end of all others
    return nullptr;
  }
}

}  // namespace

Task<std::unique_ptr<Transport>> accept_from(Executor executor, AsyncFd& socket, Take take) {
  Waiter pause(executor);
  while (co_await socket.readable()) {
    Fd client(::accept4(socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client) {
      if (std::unique_ptr<Transport> transport = taken(executor, std::move(client), take)) {
        co_return transport;
      }
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      co_await pause.until(Clock::now() + scarcity);
    }
  }
  co_return nullptr;
}

}  // namespace rex::transports
