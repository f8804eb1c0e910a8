// TCP as a transport: a listener that nobody can reach from outside this machine, and the way to any address.
// Must not know JSON, methods or tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "transports/listener.h"
#include "transports/transport.h"

namespace rex::transports {

struct TcpAddress {
  std::string host;  // a name, or an address of IPv4 or IPv6 without brackets
  std::uint16_t port = 0;
};

/// Reads HOST:PORT, where the address of IPv6 stands in brackets; nullopt for anything else.
std::optional<TcpAddress> parse_tcp_address(std::string_view text);

/// What parse_tcp_address reads.
std::string to_string(const TcpAddress& address);

/// Whether the host is an address of 127.0.0.0/8, ::1, or the name localhost. Asks nobody.
bool is_loopback(const TcpAddress& address);

/// Accepts whoever is on this machine, so each of them has to show that it may come in.
class TcpListener final : public Listener {
 public:
  /// Port 0 is one that is free. Throws NotPermitted for a host that is not loopback, OsError EADDRINUSE, EACCES, ...
  TcpListener(Executor executor, const TcpAddress& address);

  /// The one it has, with its real port.
  [[nodiscard]] const TcpAddress& address() const { return address_; }
  Task<std::unique_ptr<Transport>> accept() override;
  void close() override;
  [[nodiscard]] bool vouches() const override { return false; }

 private:
  Executor executor_;
  TcpAddress address_;
  std::unique_ptr<AsyncFd> socket_;
};

/// Connects, trying every address that the name has. Throws HostUnreachable with `phase` dns or tcp and `detail`.
/// `workers` resolve a name; `cancel` ends the attempt.
Task<std::unique_ptr<Transport>> dial_tcp(Executor executor, Workers& workers, TcpAddress to, TimePoint deadline,
                                          Cancel& cancel);

}  // namespace rex::transports
