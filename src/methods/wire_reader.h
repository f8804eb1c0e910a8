// Builds a struct from JSON by the lines of wire.gen.cc, and refuses by path. Included by wire.gen.cc alone; must not
// know what any method means.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "methods/wire.gen.h"
#include "methods/wire_rule.h"

namespace rex::wire {

using nlohmann::json;

/// A value and the way to it, kept on the stack: the path is spelled only when something is refused.
struct Node {
  const json& value;
  const Node* up = nullptr;
  std::string_view name;
  std::ptrdiff_t index = -1;
  bool strict = true;  ///< Params are; in results, members beyond ours are left alone.

  [[nodiscard]] Node member(const json& at, std::string_view its_name) const {
    return {at, this, its_name, -1, strict};
  }
  [[nodiscard]] Node element(std::size_t i) const {
    return {value[i], this, {}, static_cast<std::ptrdiff_t>(i), strict};
  }
};

[[noreturn]] void refuse(const Node& node, std::string_view problem, std::vector<std::string> known = {});
[[noreturn]] void refuse_type(const Node& node, std::string_view expected);
[[noreturn]] void refuse_unknown(const Node& object, const std::vector<std::string>& known);
[[noreturn]] void refuse_missing(const Node& object, std::string_view name);
void check_size(const Node& node, std::size_t size, std::string_view unit, const Rule& rule);
std::size_t enum_index(const Node& node, std::span<const std::string_view> words);
std::size_t kind_index(const Node& object, std::span<const std::string_view> kinds);
void check_variable_name(const Node& node, std::string_view name);
/// The member, or nullptr where it is absent or null; counts it in `seen` if it is there at all.
const json* find(const Node& object, std::string_view name, std::size_t& seen);
void check_exactly_one(const Node& object, std::initializer_list<std::string_view> names);

void get(const Node& node, bool& out, const Rule& rule);
void get(const Node& node, std::int64_t& out, const Rule& rule);
void get(const Node& node, std::string& out, const Rule& rule);
void get(const Node& node, RawJson& out, const Rule& rule);
void get(const Node& node, std::nullptr_t& out, const Rule& rule);

template <class T>
  requires std::is_enum_v<T>
void get(const Node& node, T& out, const Rule&) {
  out = static_cast<T>(enum_index(node, names<T>));
}

template <class T>
void get(const Node& node, std::optional<T>& out, const Rule& rule) {
  out.reset();
  if (!node.value.is_null()) {
    get(node, out.emplace(), rule);
  }
}

template <class T>
void get(const Node& node, std::vector<T>& out, const Rule& rule) {
  if (!node.value.is_array()) {
    refuse_type(node, "an array");
  }
  check_size(node, node.value.size(), "elements", rule);
  out.resize(node.value.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    get(node.element(i), out[i], rule.within(-max_safe, max_safe));
  }
}

template <class T, std::size_t n>
void get(const Node& node, std::array<T, n>& out, const Rule& rule) {
  if (!node.value.is_array()) {
    refuse_type(node, "an array");
  }
  check_size(node, node.value.size(), "elements", within(n, n));
  for (std::size_t i = 0; i < n; ++i) {
    get(node.element(i), out[i], rule);
  }
}

template <class T>
void get(const Node& node, std::map<std::string, T>& out, const Rule& rule) {
  if (!node.value.is_object()) {
    refuse_type(node, "an object");
  }
  out.clear();
  for (const auto& [name, value] : node.value.items()) {
    const Node entry = node.member(value, name);
    if (rule.names_variables) {
      check_variable_name(entry, name);
    }
    get(entry, out[name], rule);
  }
}

/// The two types of a variant never share a JSON type.
template <class T>
bool looks_like(const json& value) {
  return std::same_as<T, std::string> ? value.is_string() : std::integral<T> ? value.is_number() : value.is_array();
}

template <class T>
constexpr std::string_view spoken() {
  return std::same_as<T, std::string> ? "a string" : std::integral<T> ? "an integer" : "an array";
}

template <class A, class B>
void get(const Node& node, std::variant<A, B>& out, const Rule& rule) {
  if (looks_like<A>(node.value)) {
    // Bounds are the array's; a scalar beside it has none.
    get(node, out.template emplace<A>(), rule.within(-max_safe, max_safe));
  } else if (looks_like<B>(node.value)) {
    get(node, out.template emplace<B>(), rule);
  } else {
    refuse_type(node, std::string(spoken<A>()) + " or " + std::string(spoken<B>()));
  }
}

/// Lists the names a struct can have; used only when an unknown one has been met.
class Names {
 public:
  void required(std::string_view name, const auto&, const Rule& rule = {}) { add(name, rule); }
  void optional(std::string_view name, const auto&, const Rule& rule = {}) { add(name, rule); }
  void nullable(std::string_view name, const auto&, const Rule& rule = {}) { add(name, rule); }
  void constant(std::string_view name, bool) { add(name, {}); }
  void exactly_one(std::initializer_list<std::string_view>) {}
  template <class Kind>
  Kind kind(Kind kind) {
    return kind;
  }
  std::vector<std::string> names;

 private:
  void add(std::string_view name, const Rule& rule) {
    names.emplace_back(name);
    if (rule.is_os) {
      names.push_back(std::string(name) + "Bytes");
    }
  }
};

/// Fills one struct from one object. A missing member is told last: a misspelt one explains it better.
class Reader {
 public:
  explicit Reader(const Node& object) : object_(object) {}

  template <class T>
  void required(std::string_view name, T& out, const Rule& rule = {}) {
    if (!take(name, out, rule) && missing_.empty()) {
      missing_ = name;
    }
  }
  template <class T>
  void optional(std::string_view name, T& out, const Rule& rule = {}) {
    take(name, out, rule);
  }
  template <class T>
  void nullable(std::string_view name, T& out, const Rule& rule = {}) {
    take(name, out, rule);
  }
  void constant(std::string_view name, bool expected) {
    bool value = !expected;
    required(name, value);
    if (value != expected && missing_.empty()) {
      refuse(object_.member(object_.value, name), expected ? "can only be true" : "can only be false");
    }
  }
  template <class Kind>
  Kind kind(Kind& out) {
    return out = static_cast<Kind>(kind_index(object_, names<Kind>));
  }
  void exactly_one(std::initializer_list<std::string_view> names) { check_exactly_one(object_, names); }

  template <class T>
  void finish(T& out) {
    if (object_.strict && seen_ != object_.value.size()) {
      Names known;
      members(known, out);
      refuse_unknown(object_, known.names);
    }
    if (!missing_.empty()) {
      refuse_missing(object_, missing_);
    }
  }

 private:
  template <class T>
  bool take(std::string_view name, T& out, Rule rule) {
    const json* value = find(object_, name, seen_);
    std::string twin;
    if (rule.is_os) {
      twin = std::string(name) + "Bytes";
      const json* bytes = find(object_, twin, seen_);
      if (bytes != nullptr) {
        if (value != nullptr) {
          refuse(object_.member(*bytes, twin), "given beside " + std::string(name));
        }
        value = bytes;
        name = twin;
        rule.as_base64 = true;
      }
    }
    if (value == nullptr) {
      return false;
    }
    get(object_.member(*value, name), out, rule);
    return true;
  }

  const Node& object_;
  std::size_t seen_ = 0;
  std::string_view missing_;
};

template <class T>
  requires std::is_class_v<T>
void get(const Node& node, T& out, const Rule&) {
  if (!node.value.is_object()) {
    refuse_type(node, "an object");
  }
  Reader reader(node);
  members(reader, out);
  reader.finish(out);
}

template <class T>
T read(const nlohmann::json& params) {
  static const json none = json::object();
  T out{};
  get(Node{params.is_null() ? none : params, nullptr, "params"}, out, Rule{});
  return out;
}

template <class T>
T read_document(const nlohmann::json& document) {
  T out{};
  get(Node{document, nullptr, ""}, out, Rule{});
  return out;
}

template <class T>
T read_result(const nlohmann::json& result) {
  T out{};
  get(Node{result, nullptr, "result", -1, false}, out, Rule{});
  return out;
}

}  // namespace rex::wire
