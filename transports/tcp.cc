#include "transports/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "transports/tcp_peer.h"
#include "transports/unix.h"

namespace rex::transports {
namespace {

/// An address as the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Nullopt for what is no address: a name.
std::optional<SocketAddress> literal(const TcpAddress& address) {
  SocketAddress result;
  auto* const four = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (::inet_pton(AF_INET, address.host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(address.port);
    result.size = sizeof *four;
    return result;
  }
  if (::inet_pton(AF_INET6, address.host.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address.port);
    result.size = sizeof *six;
    return result;
  }
  return std::nullopt;
}

std::uint16_t port_of(const SocketAddress& address) {
  return ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);  // at the same place in both families
}

/// Small messages are sent at once: waiting for more would add up to 40 ms to every answer.
void do_not_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// With route_localnet the kernel lets a neighbour of the network reach 127.0.0.0/8 (CVE-2020-8558), so the listener's
/// own address does not say where its clients are.
std::unique_ptr<Transport> take_from_here(Executor executor, Fd client) {
  SocketAddress peer;
  if (::getpeername(client.get(), peer.get(), &peer.size) != 0 || !is_on_loopback(peer.storage)) {
    return nullptr;
  }
  do_not_delay(client.get());
  return over_tcp(executor, std::move(client));
}

/// A resolver's answer, or why there is none. Filled by a worker, so it outlives an attempt that gave up.
struct Resolved {
  std::vector<SocketAddress> addresses;
  std::string problem;
  bool done = false;
  Event changed;
};

void resolve(const TcpAddress& address, Resolved& into) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0) {
    into.problem = ::gai_strerror(failed);
    return;
  }
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress one;
    one.size = std::min<socklen_t>(each->ai_addrlen, sizeof one.storage);
    std::memcpy(&one.storage, each->ai_addr, one.size);
    into.addresses.push_back(one);
  }
  ::freeaddrinfo(found);
}

Task<> resolve_on(Workers& workers, TcpAddress address, std::shared_ptr<Resolved> into) {
  auto work = [address, into] { resolve(address, *into); };
  co_await workers.run(std::move(work));
  into->done = true;
  into->changed.notify();
}

Error unreachable(const TcpAddress& to, std::string_view phase, const std::string& detail) {
  return host_unreachable(phase, detail, "cannot connect to " + printable(to_string(to)) + ": ");
}

/// How far one attempt may go, and what ends it earlier.
struct Attempt {
  Attempt(Executor executor, TimePoint end, Cancel& wish) : waiter(executor), deadline(end), cancel(wish) {
    waiter.subscribe(cancel.changed());
  }
  [[nodiscard]] bool is_over() const { return cancel || Clock::now() >= deadline; }
  [[nodiscard]] std::string why() const { return cancel ? "cancelled" : "no answer in time"; }

  Waiter waiter;
  TimePoint deadline;
  Cancel& cancel;
};

Task<std::vector<SocketAddress>> addresses_of(Executor executor, Workers& workers, const TcpAddress& to,
                                              Attempt& attempt) {
  if (const std::optional<SocketAddress> one = literal(to)) {
    co_return std::vector<SocketAddress>{*one};
  }
  const auto resolved = std::make_shared<Resolved>();
  attempt.waiter.subscribe(resolved->changed);
  spawn(executor, resolve_on(workers, to, resolved));
  while (!resolved->done && !attempt.is_over()) {
    co_await attempt.waiter.until(attempt.deadline);
  }
  if (!resolved->done || !resolved->problem.empty()) {
    throw unreachable(to, "dns", resolved->done ? resolved->problem : attempt.why());
  }
  co_return std::move(resolved->addresses);
}

/// Whether it is connected; else `problem` says why not.
Task<bool> connect(Executor executor, std::shared_ptr<AsyncFd> socket, SocketAddress to, Attempt& attempt,
                   std::string& problem) {
  int error = ::connect(socket->fd(), to.get(), to.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    Timer timer(executor);
    if (attempt.deadline != never) {
      timer.expires_at(attempt.deadline);
      timer.async_wait([socket](const std::error_code& cancelled) {
        if (!cancelled) {
          socket->close();
        }
      });
    }
    const Cancel::Listener end(attempt.cancel, [socket] { socket->close(); });
    if (!co_await socket->writable()) {
      problem = attempt.why();
      co_return false;
    }
    socklen_t size = sizeof error;
    ::getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  problem = error == 0 ? "" : std::strerror(error);
  co_return error == 0;
}

}  // namespace

std::optional<TcpAddress> parse_tcp_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  host = bracketed ? host.substr(1, host.size() - 2) : host;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (host.empty() || bracketed != (host.find(':') != std::string_view::npos) || port.empty() || error != std::errc() ||
      end != port.data() + port.size() || number > 65535 ||
      host.find_first_of(std::string_view("\0[]/ ", 5)) != std::string_view::npos) {
    return std::nullopt;
  }
  return TcpAddress{std::string(host), static_cast<std::uint16_t>(number)};
}

std::string to_string(const TcpAddress& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return (six ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

bool is_loopback(const TcpAddress& address) {
  const std::optional<SocketAddress> at = literal(address);
  return at ? is_on_loopback(at->storage) : address.host == "localhost";
}

TcpListener::TcpListener(Executor executor, const TcpAddress& address) : executor_(executor), address_(address) {
  if (!is_loopback(address)) {
    throw Error(Fault::NotPermitted, "only this machine itself may connect here: 127.0.0.1 or [::1]");
  }
  address_.host = address.host == "localhost" ? "127.0.0.1" : address.host;
  SocketAddress at = *literal(address_);
  Fd socket(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  // Without it a port could not be listened at again while connections of before linger. It takes none from anybody.
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), at.get(), at.size) != 0 || ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), at.get(), &at.size) != 0) {
    throw os_error("cannot listen", errno, to_string(address_));
  }
  address_.port = port_of(at);
  socket_ = std::make_unique<AsyncFd>(executor_, std::move(socket));
}

Task<std::unique_ptr<Transport>> TcpListener::accept() { return accept_from(executor_, *socket_, take_from_here); }

void TcpListener::close() { socket_->close(); }

Task<std::unique_ptr<Transport>> dial_tcp(Executor executor, Workers& workers, TcpAddress to, TimePoint deadline,
                                          Cancel& cancel) {
  Attempt attempt(executor, deadline, cancel);
  const std::vector<SocketAddress> addresses = co_await addresses_of(executor, workers, to, attempt);
  std::string problem = "the name has no address";
  for (const SocketAddress& address : addresses) {
    Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    Fd copy(socket ? ::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3) : -1);
    if (!copy) {
      problem = std::strerror(errno);
      continue;
    }
    do_not_delay(socket.get());
    const auto waiting = std::make_shared<AsyncFd>(executor, std::move(socket));
    if (co_await connect(executor, waiting, address, attempt, problem)) {
      co_return over_tcp(executor, std::move(copy));
    }
    if (attempt.is_over()) {
      break;
    }
  }
  throw unreachable(to, "tcp", problem);
}

}  // namespace rex::transports
