// Moments as the wire writes them: RFC 3339, UTC. Wall-clock time only; whoever waits uses Clock (async.h).
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace rex {

/// RFC 3339 in UTC with as many fractional digits as `time` needs (none, or up to nine), so that every moment comes
/// back exactly: "1901-12-13T20:45:52Z", "2038-01-19T03:14:08.000000001Z". A year outside 0000–9999, which RFC 3339
/// cannot write, has a sign and at least four digits, as in ISO 8601: "+10000-01-01T00:00:00Z".
std::string format_time(timespec time);

/// Reads what format_time writes, and any RFC 3339 time: an offset instead of Z, lower-case t and z, a space instead of
/// T. Nullopt for anything else: a day that does not exist, more than nine fractional digits. A leap second (:60) is
/// the second after it, as Unix counts.
std::optional<timespec> parse_time(std::string_view text);

/// The wall clock's time now.
timespec now_utc();

}  // namespace rex
