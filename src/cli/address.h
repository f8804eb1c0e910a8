// Where an instance listens, as it is written on a command line: unix:PATH or tcp:HOST:PORT.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "transports/tcp.h"

namespace rex::cli {

struct UnixAddress {
  std::string path;
};

using Address = std::variant<UnixAddress, transports::TcpAddress>;

/// Also reads unix://PATH and tcp://HOST:PORT. Nullopt for what has neither scheme. Throws InvalidParams, with how it
/// is written right, and NotPermitted for a host that is not this very machine: what is said by TCP, the token too, is
/// for everybody on the way to read.
std::optional<Address> parse_address(std::string_view text);

}  // namespace rex::cli
