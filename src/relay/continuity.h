// Whether the output that a neighbour sends goes on where it was. Pure bookkeeping over the params of session/output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace rex::relay {

/// Attachments whose place is known; with more, all are learned anew.
inline constexpr std::size_t max_places = 4096;

/// What one neighbour sends to one client.
class Continuity {
 public:
  /// Takes the params of a `session/output`. False where a byte came twice, or is missing and no `gap` says so, or the
  /// params are not those of an output: whoever sends that is not to be believed any more.
  bool follows(const nlohmann::json& output);

 private:
  std::map<std::string, std::int64_t> next_;  // by the far side's attachment
};

}  // namespace rex::relay
