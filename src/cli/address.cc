#include "cli/address.h"

#include "base/error.h"

namespace rex::cli {
namespace {

std::optional<std::string_view> behind(std::string_view scheme, std::string_view text) {
  if (!text.starts_with(scheme)) {
    return std::nullopt;
  }
  text.remove_prefix(scheme.size());
  return text.starts_with("//") ? text.substr(2) : text;
}

}  // namespace

std::optional<Address> parse_address(std::string_view text) {
  if (const auto path = behind("unix:", text)) {
    if (path->empty()) {
      throw Error(Fault::InvalidParams, "a path is missing: unix:PATH");
    }
    return UnixAddress{std::string(*path)};
  }
  if (const auto rest = behind("tcp:", text)) {
    const std::optional<transports::TcpAddress> address = transports::parse_tcp_address(*rest);
    if (!address) {
      throw Error(Fault::InvalidParams,
                  printable(text) + " is no address: tcp:127.0.0.1:PORT or tcp:[::1]:PORT, the port up to 65535");
    }
    if (!transports::is_loopback(*address)) {
      throw Error(Fault::NotPermitted,
                  "only 127.0.0.1 and [::1] are allowed, as nothing is encrypted here. To reach another machine, "
                  "forward a port of this one through SSH: ssh -L PORT:127.0.0.1:PORT HOST");
    }
    return *address;
  }
  return std::nullopt;
}

}  // namespace rex::cli
