#include "relay/continuity.h"

#include <optional>

#include "relay/names.h"

namespace rex::relay {

using nlohmann::json;

bool Continuity::follows(const json& output) {
  const auto attachment = output.find("attachment");
  const std::optional<std::int64_t> begin = natural(output, "offset");
  const std::optional<std::int64_t> end = natural(output, "next");
  if (attachment == output.end() || !attachment->is_string() || !begin || !end || *end < *begin) {
    return false;
  }
  const auto& id = attachment->get_ref<const std::string&>();
  if (const auto place = next_.find(id); place != next_.end()) {
    std::optional<std::int64_t> after = place->second;
    if (const auto gap = output.find("gap"); gap != output.end() && gap->is_object()) {
      after = natural(*gap, "from") == after ? natural(*gap, "to") : std::nullopt;
    }
    if (after != begin || *begin < place->second) {
      return false;
    }
  }
  if (output.value("eof", json()) == true) {
    next_.erase(id);
    return true;
  }
  if (next_.size() >= max_places && !next_.contains(id)) {
    next_.clear();
  }
  next_[id] = *end;
  return true;
}

}  // namespace rex::relay
