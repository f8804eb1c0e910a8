#include "transports/tcp_peer.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "transports/unix.h"

namespace rex::transports {
namespace {

// How often a peer is looked for that has ended its input and still waits for answers, or does not.
constexpr Milliseconds look{250};

// The table is read in pieces while it changes, so that an entry may slip through one reading.
constexpr int misses_of_the_gone = 2;

/// A socket's place in the kernel's table.
struct Entry {
  const char* table = nullptr;
  std::string ends;  // "LOCAL REMOTE", as the table writes them; empty where it cannot be on this machine
};

std::string as_in_table(const sockaddr_storage& address) {
  const auto& four = reinterpret_cast<const sockaddr_in&>(address);
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  std::uint32_t words[4];
  const std::size_t count = address.ss_family == AF_INET ? 1 : 4;
  std::memcpy(words, address.ss_family == AF_INET ? static_cast<const void*>(&four.sin_addr) : &six.sin6_addr,
              count * sizeof words[0]);
  std::string text;
  char piece[16];
  for (std::size_t i = 0; i < count; ++i) {
    std::snprintf(piece, sizeof piece, "%08X", words[i]);
    text += piece;
  }
  std::snprintf(piece, sizeof piece, ":%04X", ntohs(four.sin_port));  // at the same place in both families
  return text + piece;
}

Entry peer_of(int socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 || !is_on_loopback(peer)) {
    return {};
  }
  return {own.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", as_in_table(peer) + " " + as_in_table(own)};
}

enum class Seen { open, closed, missing, unknown };

/// A socket that no process has open any more has the inode 0.
Seen look_for(const Entry& entry) {
  std::ifstream table(entry.table);
  std::string line;
  while (std::getline(table, line)) {
    if (line.find(entry.ends) != std::string::npos) {
      std::istringstream fields(line);
      std::string field;
      for (int skipped = 0; skipped < 10; ++skipped) {
        fields >> field;
      }
      return field == "0" ? Seen::closed : Seen::open;
    }
  }
  return table.eof() ? Seen::missing : Seen::unknown;
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(Executor executor, Fd socket)
      : executor_(executor), peer_(peer_of(socket.get())), stream_(over_socket(executor, std::move(socket))) {}

  Task<std::size_t> read_some(std::span<char> buffer) override {
    const std::size_t n = co_await stream_->read_some(buffer);
    if (n == 0) {
      input_ended_ = true;
      changed_.notify();
    }
    co_return n;
  }

  std::size_t try_write(std::string_view data) override { return stream_->try_write(data); }
  Task<> writable() override { return stream_->writable(); }
  void end_output() override { stream_->end_output(); }

  Task<bool> gone() override {
    Waiter waiter(executor_);
    waiter.subscribe(changed_);
    int misses = 0;
    while (!closed_) {
      if (input_ended_ && !peer_.ends.empty()) {
        const Seen seen = look_for(peer_);
        misses = seen == Seen::missing ? misses + 1 : 0;
        if (seen == Seen::closed || misses == misses_of_the_gone) {
          co_return true;
        }
      }
      co_await waiter.until(input_ended_ ? Clock::now() + look : never);
    }
    co_return false;
  }

  void close() override {
    closed_ = true;
    stream_->close();
    changed_.notify();
  }

 private:
  Executor executor_;
  Entry peer_;
  std::unique_ptr<Transport> stream_;
  bool input_ended_ = false;
  bool closed_ = false;
  Event changed_;
};

}  // namespace

bool is_on_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  }
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::unique_ptr<Transport> over_tcp(Executor executor, Fd socket) {
  return std::make_unique<TcpTransport>(executor, std::move(socket));
}

}  // namespace rex::transports
