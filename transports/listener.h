// Where clients come from. Must not know what they say, nor how one of them shows who it is.
#pragma once

#include <memory>

#include "base/fd.h"
#include "transports/transport.h"

namespace rex::transports {

/// Passive: whoever serves asks it for one client after another.
class Listener {
 public:
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  virtual ~Listener() = default;

  /// The next client; null once closed.
  virtual Task<std::unique_ptr<Transport>> accept() = 0;
  virtual void close() = 0;
  /// Whether every client is this very user's, by the kernel's word; else each has to show that it may come in.
  [[nodiscard]] virtual bool vouches() const = 0;
};

/// What becomes of a connection: a transport, or null for one that is turned away. Throws OsError.
using Take = std::unique_ptr<Transport> (*)(Executor executor, Fd client);

/// What `take` makes of the next connection of a listening socket; null once that is closed.
Task<std::unique_ptr<Transport>> accept_from(Executor executor, AsyncFd& socket, Take take);

}  // namespace rex::transports
