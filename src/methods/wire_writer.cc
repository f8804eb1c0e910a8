// The leaves of writing: whatever bytes a value holds, its JSON can be sent.
#include "methods/wire_writer.h"

#include "base/encoding.h"

namespace rex::wire {

bool needs_base64(const std::string& value) { return !is_utf8(value); }

json put(bool value, const Rule&) { return json(value); }

json put(std::int64_t value, const Rule&) { return json(value); }

json put(const std::string& value, const Rule& rule) {
  return json(rule.as_base64 ? to_base64(value) : key_text(value));
}

json put(const RawJson& value, const Rule&) { return json::parse(value.text); }

json put(std::nullptr_t, const Rule&) { return json(); }

std::string key_text(const std::string& name) {
  if (is_utf8(name)) {
    return name;
  }
  // json::dump() would throw on it far from here; its own replacement of bad bytes does not.
  return json::parse(json(name).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

}  // namespace rex::wire
