#include "transports/ssh_agent.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "transports/ssh_talk.h"

namespace rex::transports {
namespace {

// Numbers of the agent protocol (draft-ietf-sshm-ssh-agent).
constexpr char request_identities = 11;
constexpr char identities_answer = 12;
constexpr char sign_request = 13;

constexpr std::size_t max_packet = 256 * 1024;
constexpr std::size_t max_keys = 256;
constexpr int answer_ms = 10'000;
constexpr int touch_ms = 60'000;  // a person may have to confirm, or to find the key that blinks

void put(std::string& to, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    to += static_cast<char>(number >> shift);
  }
}

void put(std::string& to, std::string_view text) {
  put(to, static_cast<std::uint32_t>(text.size()));
  to += text;
}

/// Takes numbers and strings off the front; nullopt where there is no whole one.
std::optional<std::uint32_t> take_number(std::string_view& from) {
  if (from.size() < 4) {
    return std::nullopt;
  }
  std::uint32_t number = 0;
  for (int i = 0; i < 4; ++i) {
    number = number << 8 | static_cast<unsigned char>(from[static_cast<std::size_t>(i)]);
  }
  from.remove_prefix(4);
  return number;
}

std::optional<std::string> take_text(std::string_view& from) {
  const auto size = take_number(from);
  if (!size || *size > from.size()) {
    return std::nullopt;
  }
  std::string text(from.substr(0, *size));
  from.remove_prefix(*size);
  return text;
}

Fd connect_agent(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || path.empty() || path.size() >= sizeof address.sun_path) {
    return {};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {};
  }
  return socket;
}

}  // namespace

AgentGate::AgentGate(const std::string& path, std::vector<std::string> first, bool only_first, int talk)
    : first_(std::move(first)), only_first_(only_first), talk_(talk), agent_(connect_agent(path)) {
  int ends[2];
  if (agent_ && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
    client_ = Fd(ends[0]);
    gate_ = Fd(ends[1]);
    thread_ = std::thread([this] { run(); });
  }
}

void AgentGate::end() {
  if (thread_.joinable()) {
    ::shutdown(gate_.get(), SHUT_RDWR);
    thread_.join();
  }
}

void AgentGate::run() {
  std::string packet;
  while (read_packet(gate_.get(), -1, packet)) {
    const char kind = packet[0];
    note_signature(packet);
    const int patience = kind == sign_request ? touch_ms : answer_ms;
    if (!write_packet(agent_.get(), packet) || !read_packet(agent_.get(), patience, packet)) {
      break;
    }
    if (kind == request_identities && packet[0] == identities_answer) {
      packet = chosen(packet);
    }
    if (!write_packet(gate_.get(), packet)) {
      break;
    }
  }
  ::shutdown(gate_.get(), SHUT_RDWR);  // libssh would wait for an answer that does not come
}

bool AgentGate::wait(int fd, int patience_ms) const {
  pollfd fds[] = {{fd, POLLIN, 0}, {talk_, POLLIN | POLLRDHUP, 0}, {gate_.get(), POLLRDHUP, 0}};
  int ready = 0;
  do {
    ready = ::poll(fds, 3, patience_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0 && fds[1].revents == 0 && fds[2].revents == 0;
}

bool AgentGate::read_packet(int fd, int patience_ms, std::string& packet) const {
  std::string bytes;
  std::size_t wanted = 4;
  while (bytes.size() < wanted) {
    char buffer[4096];
    if (!wait(fd, patience_ms)) {
      return false;
    }
    const ssize_t n = ::recv(fd, buffer, std::min(sizeof buffer, wanted - bytes.size()), 0);
    if (n <= 0) {
      return false;
    }
    bytes.append(buffer, static_cast<std::size_t>(n));
    if (wanted == 4 && bytes.size() == 4) {
      std::string_view head = bytes;
      const std::uint32_t size = *take_number(head);
      if (size == 0 || size > max_packet) {
        return false;
      }
      wanted += size;
    }
  }
  packet = bytes.substr(4);
  return true;
}

bool AgentGate::write_packet(int fd, const std::string& packet) const {
  std::string bytes;
  put(bytes, packet);
  // An agent takes a whole request or is broken: its socket has room for many.
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::string AgentGate::chosen(const std::string& answer) {
  std::string_view rest = std::string_view(answer).substr(1);
  const std::uint32_t count = take_number(rest).value_or(0);
  keys_.clear();
  for (std::uint32_t i = 0; i < count && keys_.size() < max_keys; ++i) {
    auto blob = take_text(rest);
    auto comment = take_text(rest);
    if (!blob || !comment) {
      break;
    }
    keys_.push_back({std::move(*blob), std::move(*comment)});
  }
  std::vector<Key> ordered;
  for (const std::string& blob : first_) {
    const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.blob == blob; });
    if (found != keys_.end()) {
      ordered.push_back(std::move(*found));
      keys_.erase(found);
    }
  }
  if (!only_first_) {
    std::move(keys_.begin(), keys_.end(), std::back_inserter(ordered));
  }
  keys_ = std::move(ordered);
  std::string packet(1, identities_answer);
  put(packet, static_cast<std::uint32_t>(keys_.size()));
  shown_.clear();
  for (const Key& key : keys_) {
    put(packet, key.blob);
    put(packet, key.comment);
    shown_.push_back(key.blob);
  }
  return packet;
}

void AgentGate::note_signature(const std::string& request) {
  std::string_view rest = std::string_view(request).substr(1);
  const auto blob = request[0] == sign_request ? take_text(rest) : std::nullopt;
  if (!blob) {
    return;
  }
  for (const Key& key : keys_) {
    if (key.blob == *blob) {
      signer_ = key.comment;
    }
  }
  std::string_view inside = *blob;
  if (take_text(inside).value_or("").starts_with("sk-")) {
    Conversation(talk_).phase("auth", "touch the hardware key " + signer_);
  }
}

}  // namespace rex::transports
