// What a host is reached by, read strictly: a URL or an argv is one of these, or InvalidParams says why it is none.
// Pure; opens nothing and resolves nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "relay/dial.h"

namespace rex::hosts {

/// `ssh://[user@]host[:port]`. What is absent is the user's OpenSSH config to say.
struct SshPlace {
  std::string user;
  std::string host;  // a name or an address; an IPv6 address without its brackets
  std::optional<std::uint16_t> port;
  bool operator==(const SshPlace&) const = default;
};

/// `tcp://127.0.0.1:port`; encryption off this machine is ssh's job.
struct TcpPlace {
  std::string address;  // of the loopback: 127.x.y.z or ::1
  std::uint16_t port;
  bool operator==(const TcpPlace&) const = default;
};

/// `unix:///path`; the path is taken as it is, nothing in it is decoded.
struct UnixPlace {
  std::string path;
  bool operator==(const UnixPlace&) const = default;
};

/// `exec:` and words split at spaces, with no quoting; or an argv, where any string is possible.
struct ExecPlace {
  std::vector<std::string> argv;
  bool operator==(const ExecPlace&) const = default;
};

using Place = std::variant<SshPlace, TcpPlace, UnixPlace, ExecPlace>;

inline constexpr std::size_t max_url_bytes = 4096;
inline constexpr std::size_t max_words = 256;
inline constexpr std::size_t max_word_bytes = 64 * 1024;
inline constexpr std::size_t max_ssh_host_bytes = 253;  // of a name in the DNS
inline constexpr std::size_t max_user_bytes = 255;

/// Throws InvalidParams naming `url`, `argv` or `options.tokenFile`.
Place parse_target(const relay::Target& target);

}  // namespace rex::hosts
