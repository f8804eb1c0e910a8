// How what a far host says is written by its receiver: host names in front of its own, and ids of attachments that say
// which channel they came through. Pure functions over payloads that are otherwise not interpreted.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace rex::relay {

/// A member that is an integer of at least 0; nullopt for any other, and for none.
std::optional<std::int64_t> natural(const nlohmann::json& object, const char* member);

/// "build7" behind "bastion" is "bastion/build7"; "" is the host itself.
std::string host_behind(const std::string& name, std::string_view path);

/// An attachment's id on this side of the channel. The far side's id may be anything.
std::string local_attachment(std::uint64_t channel, std::string_view far);
/// The channel an id came through, and the id there; nullopt for one of our own.
std::optional<std::pair<std::uint64_t, std::string>> far_attachment(std::string_view local);

/// Rewrites a result, or the params of a notification: `host` and `attachment` of it, of its `info` and `result`, and
/// of each of its `sessions`, `hosts` and `forwards`. An object that is about a host and does not name it is given one
/// by `always`, as every notification has.
void rewrite(nlohmann::json& payload, const std::string& name, std::uint64_t channel, bool always = false);

/// The same of a result's text, which has been read as a part of a message. The rest of it stays as it was written.
std::string rewritten(std::string_view result, const std::string& name, std::uint64_t channel);

/// The error as the far side's client would see it, seen from here.
Error rewritten(const Error& error, const std::string& name);

}  // namespace rex::relay
