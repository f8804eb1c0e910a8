// The logs of sessions as resources: rex://HOST/session/NAME, each part percent-encoded, HOST empty for this machine.
// Knows the service's methods; must not know MCP's messages.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "mcp/toolbox.h"

namespace rex::mcp {

/// What one reading of a log gives at most.
inline constexpr std::size_t max_log_bytes = 256u << 10;

struct LogUri {
  Place place;
  std::optional<std::uint64_t> offset;
};

std::string uri_of(const Place& place);
/// Nullopt for what is no such URI.
std::optional<LogUri> parse_log_uri(std::string_view uri);

/// The members `resources`, `resourceTemplates` and `contents` of the results.
Task<nlohmann::json> list_logs(Toolbox& toolbox, Cancel* cancel);
nlohmann::json log_templates();
/// `uri` is what was asked for. Throws what session/read does.
Task<nlohmann::json> read_log(Toolbox& toolbox, std::string uri, LogUri log, Cancel* cancel);

}  // namespace rex::mcp
