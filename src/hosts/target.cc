#include "hosts/target.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace rex::hosts {
namespace {

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool is_made_of(std::string_view text, std::string_view also) {
  return std::all_of(text.begin(), text.end(),
                     [also](char c) { return is_alphanumeric(c) || also.find(c) != std::string_view::npos; });
}

[[noreturn]] void refuse(std::string_view problem) { throw invalid_params("url", problem); }

std::uint16_t parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0 || text.front() == '0') {
    refuse("a port is a number from 1 to 65535, not " + printable(text));
  }
  return port;
}

bool is_ipv6(std::string_view address) {
  in6_addr parsed{};
  return inet_pton(AF_INET6, std::string(address).c_str(), &parsed) == 1;
}

/// Names and IPv4 addresses. One that begins with `-` would be an option to whoever is given it.
void check_name(std::string_view name) {
  if (name.size() > max_ssh_host_bytes) {
    refuse("a host name has at most " + std::to_string(max_ssh_host_bytes) + " bytes");
  }
  if (std::any_of(name.begin(), name.end(), [](char c) { return c < 0; })) {
    refuse("a host name is ASCII; write an international one as xn--…");
  }
  if (name.empty() || name.front() == '-' || !is_made_of(name, "._-")) {
    refuse("a host name has letters, digits and . _ - only, and does not begin with -: " + printable(name));
  }
}

struct HostAndPort {
  std::string host;
  std::optional<std::uint16_t> port;
};

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
HostAndPort parse_host_and_port(std::string_view text) {
  if (text.find_first_of("/?#") != std::string_view::npos) {
    refuse("nothing may follow host and port: " + printable(text.substr(text.find_first_of("/?#"))));
  }
  HostAndPort found;
  std::size_t end = 0;  // of the host
  if (text.starts_with('[')) {
    end = text.find(']');
    const std::string_view address = text.substr(1, end == std::string_view::npos ? end : end - 1);
    const std::size_t zone = std::min(address.find('%'), address.size());
    if (end == std::string_view::npos || !is_ipv6(address.substr(0, zone)) ||
        (zone != address.size() && (zone + 1 == address.size() || !is_made_of(address.substr(zone + 1), "._-")))) {
      refuse("brackets hold an IPv6 address: " + printable(text));
    }
    found.host = address;
    ++end;
  } else {
    end = std::min(text.find(':'), text.size());
    if (text.find(':', std::min(end + 1, text.size())) != std::string_view::npos) {
      refuse("an IPv6 address stands in brackets: [" + printable(text) + "]");
    }
    check_name(text.substr(0, end));
    found.host = text.substr(0, end);
  }
  if (end < text.size()) {
    if (text[end] != ':' || end + 1 == text.size()) {
      refuse("a port follows a colon: " + printable(text));
    }
    found.port = parse_port(text.substr(end + 1));
  }
  return found;
}

SshPlace parse_ssh(std::string_view text) {
  SshPlace place;
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = text.substr(0, at);
    if (user.find(':') != std::string_view::npos) {
      refuse("a password does not belong into a URL; it is asked for when it is needed");
    }
    if (user.empty() || user.size() > max_user_bytes || user.front() == '-' || !is_made_of(user, "._-+@$\\")) {
      refuse("a user name has letters, digits and . _ - + @ $ \\ only, and does not begin with -: " + printable(user));
    }
    place.user = user;
    text = text.substr(at + 1);
  }
  HostAndPort found = parse_host_and_port(text);
  place.host = std::move(found.host);
  place.port = found.port;
  return place;
}

TcpPlace parse_tcp(std::string_view text) {
  const HostAndPort found = parse_host_and_port(text);
  in_addr v4{};
  const bool is_loopback =
      inet_pton(AF_INET, found.host.c_str(), &v4) == 1 ? (ntohl(v4.s_addr) >> 24U) == 127 : found.host == "::1";
  if (!is_loopback) {
    refuse("tcp is for this machine, 127.0.0.1 or [::1]: what crosses a network goes through ssh");
  }
  if (!found.port) {
    refuse("tcp needs a port: tcp://127.0.0.1:4711");
  }
  return {found.host, *found.port};
}

UnixPlace parse_unix(std::string_view text) {
  if (!text.starts_with('/') || text.size() == 1) {
    refuse("the path of a socket is absolute: unix:///run/a.sock");
  }
  return {std::string(text)};
}

ExecPlace parse_exec(std::string_view text) {
  ExecPlace place;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end != 0) {
      place.argv.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (place.argv.empty()) {
    refuse("exec: needs a program");
  }
  if (place.argv.size() > max_words) {
    refuse("a command has at most " + std::to_string(max_words) + " words");
  }
  return place;
}

Place parse_url(std::string_view url) {
  if (url.size() > max_url_bytes) {
    refuse("a URL has at most " + std::to_string(max_url_bytes) + " bytes");
  }
  if (std::any_of(url.begin(), url.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; })) {
    refuse("control characters are in no URL: " + printable(url));
  }
  const auto after = [url](std::string_view scheme) {
    return url.starts_with(scheme) ? std::optional(url.substr(scheme.size())) : std::nullopt;
  };
  if (const auto rest = after("ssh://")) {
    return parse_ssh(*rest);
  }
  if (const auto rest = after("tcp://")) {
    return parse_tcp(*rest);
  }
  if (const auto rest = after("unix://")) {
    return parse_unix(*rest);
  }
  if (const auto rest = after("exec:")) {
    return parse_exec(*rest);
  }
  refuse("a host is ssh://[user@]host[:port], tcp://127.0.0.1:port, unix:///path or exec:command, not " +
         printable(url));
}

ExecPlace check_argv(const std::vector<std::string>& argv) {
  if (argv.size() > max_words) {
    throw invalid_params("argv", "a command has at most " + std::to_string(max_words) + " words");
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    bytes += argv[i].size();
    if (argv[i].find('\0') != std::string::npos) {
      throw invalid_params("argv[" + std::to_string(i) + "]", "no argument can hold a NUL");
    }
  }
  if (argv.front().empty()) {
    throw invalid_params("argv[0]", "names the program, and is empty");
  }
  if (bytes > max_word_bytes) {
    throw invalid_params("argv", "a command has at most " + std::to_string(max_word_bytes) + " bytes");
  }
  return {argv};
}

}  // namespace

Place parse_target(const relay::Target& target) {
  if (!target.argv.empty() && !target.url.empty()) {
    throw invalid_params("argv", "a host is reached by a url or by an argv, not by both");
  }
  Place place = target.argv.empty() ? parse_url(target.url) : Place(check_argv(target.argv));
  if (!target.token_file.empty()) {
    if (!std::holds_alternative<TcpPlace>(place)) {
      throw invalid_params("options.tokenFile", "only a tcp host is shown a token");
    }
    if (target.token_file.front() != '/') {
      throw invalid_params("options.tokenFile", "the path of a token file is absolute");
    }
  }
  return place;
}

}  // namespace rex::hosts
