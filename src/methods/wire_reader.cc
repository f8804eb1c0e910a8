// The leaves of reading: numbers, strings, base64; and the words of a refusal.
#include "methods/wire_reader.h"

#include <algorithm>
#include <cmath>

#include "base/encoding.h"

namespace rex::wire {

namespace {

/// The way to `node` below the root, for example `any[1].match`.
std::string path_of(const Node& node) {
  if (node.up == nullptr) {
    return {};
  }
  std::string path = path_of(*node.up);
  if (node.index >= 0) {
    return path + "[" + std::to_string(node.index) + "]";
  }
  return path + (path.empty() ? "" : ".") + printable(node.name);
}

std::string_view root_of(const Node& node) { return node.up == nullptr ? node.name : root_of(*node.up); }

/// What stands there, short: a number itself, otherwise its type.
std::string shown(const json& value) {
  return value.is_number() ? "number " + value.dump() : std::string(value.type_name());
}

std::string one_of(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) {
    out += (out.empty() ? "" : ", ") + std::string(word);
  }
  return out;
}

std::vector<std::string> copied(std::span<const std::string_view> words) { return {words.begin(), words.end()}; }

}  // namespace

void refuse(const Node& node, std::string_view problem, std::vector<std::string> known) {
  const std::string path = path_of(node);
  const std::string_view root = root_of(node);
  std::string message(root);
  message += (root.empty() || path.empty() || path.front() == '[' ? "" : ".") + path;
  message += (message.empty() ? "" : ": ") + std::string(problem);
  if (root == "result") {
    throw Error(Fault::HostProtocol, std::move(message));
  }
  Error error = Error(Fault::InvalidParams, std::move(message)).with("member", path);
  if (!known.empty()) {
    throw std::move(error).with("known", std::move(known));
  }
  throw error;
}

void refuse_type(const Node& node, std::string_view expected) {
  refuse(node, "expected " + std::string(expected) + ", got " + shown(node.value));
}

void refuse_unknown(const Node& object, const std::vector<std::string>& known) {
  for (const auto& [name, value] : object.value.items()) {
    if (std::ranges::find(known, name) == known.end()) {
      refuse(object.member(value, name), "unknown member", known);
    }
  }
  refuse(object, "unknown member", known);
}

void refuse_missing(const Node& object, std::string_view name) {
  refuse(object.member(object.value, name), "required, but not there");
}

void check_size(const Node& node, std::size_t size, std::string_view unit, const Rule& rule) {
  const auto count = static_cast<std::int64_t>(size);
  if (count < rule.low) {
    refuse(node,
           "needs at least " + std::to_string(rule.low) + " " + std::string(unit) + ", has " + std::to_string(count));
  }
  if (count > rule.high) {
    refuse(node,
           "takes at most " + std::to_string(rule.high) + " " + std::string(unit) + ", has " + std::to_string(count));
  }
}

std::size_t enum_index(const Node& node, std::span<const std::string_view> words) {
  if (!node.value.is_string()) {
    refuse_type(node, "one of " + one_of(words));
  }
  const auto& word = node.value.get_ref<const std::string&>();
  const auto at = std::ranges::find(words, word);
  if (at == words.end()) {
    refuse(node, "expected one of " + one_of(words) + ", got " + printable(word, 64), copied(words));
  }
  return static_cast<std::size_t>(at - words.begin());
}

std::size_t kind_index(const Node& object, std::span<const std::string_view> kinds) {
  const auto has = [&object](const std::string& name) {
    const auto at = object.value.find(name);
    return at != object.value.end() && !at->is_null();
  };
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string name(kinds[i]);
    if (has(name) || has(name + "Bytes")) {
      return i;
    }
  }
  refuse(object, "expected one of the members " + one_of(kinds), copied(kinds));
}

void check_variable_name(const Node& node, std::string_view name) {
  if (name.empty() || name.find('=') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    refuse(node, "no variable can have this name");
  }
}

const json* find(const Node& object, std::string_view name, std::size_t& seen) {
  const auto at = object.value.find(name);
  if (at == object.value.end()) {
    return nullptr;
  }
  ++seen;
  return at->is_null() ? nullptr : &*at;
}

void check_exactly_one(const Node& object, std::initializer_list<std::string_view> names) {
  const auto given = std::ranges::count_if(names, [&object](std::string_view name) {
    std::size_t seen = 0;
    return find(object, name, seen) != nullptr;
  });
  if (given != 1) {
    refuse(object, "takes exactly one of " + one_of({names.begin(), names.end()}),
           copied({names.begin(), names.end()}));
  }
}

void get(const Node& node, bool& out, const Rule&) {
  if (!node.value.is_boolean()) {
    refuse_type(node, "true or false");
  }
  out = node.value.get<bool>();
}

void get(const Node& node, std::int64_t& out, const Rule& rule) {
  if (!node.value.is_number()) {
    refuse_type(node, "an integer");
  }
  bool fits = true;
  if (node.value.is_number_float()) {
    const double value = node.value.get<double>();
    if (std::isfinite(value) && value != std::trunc(value)) {
      refuse_type(node, "an integer");
    }
    // Beyond 2^53 a double stands for several integers; which one was meant is not ours to guess.
    fits = std::isfinite(value) && std::fabs(value) <= static_cast<double>(max_safe);
    out = fits ? static_cast<std::int64_t>(value) : 0;
  } else if (node.value.is_number_unsigned()) {
    const auto value = node.value.get<std::uint64_t>();
    fits = value <= static_cast<std::uint64_t>(max_safe);
    out = fits ? static_cast<std::int64_t>(value) : 0;
  } else {
    out = node.value.get<std::int64_t>();
  }
  if (!fits || out < rule.low || out > rule.high) {
    refuse(node, shown(node.value) + " is not in " + std::to_string(rule.low) + ".." + std::to_string(rule.high));
  }
}

void get(const Node& node, std::string& out, const Rule& rule) {
  if (!node.value.is_string()) {
    refuse_type(node, rule.as_base64 ? "a string of base64" : "a string");
  }
  out = node.value.get_ref<const std::string&>();
  if (rule.as_base64) {
    auto bytes = from_base64(out);
    if (!bytes) {
      refuse(node, "not base64");
    }
    out = std::move(*bytes);
  }
  // The kernel would take such a string for a shorter one.
  if (rule.is_os && !rule.may_hold_nul && out.find('\0') != std::string::npos) {
    refuse(node, "has a NUL at byte " + std::to_string(out.find('\0')));
  }
  if (!rule.is_os) {
    check_size(node, out.size(), "bytes", rule);
  }
}

void get(const Node& node, RawJson& out, const Rule&) { out.text = node.value.dump(); }

void get(const Node& node, std::nullptr_t&, const Rule&) {
  if (!node.value.is_null()) {
    refuse_type(node, "null");
  }
}

}  // namespace rex::wire
