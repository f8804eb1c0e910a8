// Builds JSON from a struct by the lines of wire.gen.cc. Included by wire.gen.cc alone; must not know what any method
// means.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "methods/wire.gen.h"
#include "methods/wire_rule.h"

namespace rex::wire {

using nlohmann::json;

/// Whether an OS string in `value` is not UTF-8. What holds none never does.
template <class T>
bool needs_base64(const T&) {
  return false;
}
bool needs_base64(const std::string& value);
template <class T>
bool needs_base64(const std::optional<T>& value) {
  return value && needs_base64(*value);
}
template <class T>
bool needs_base64(const std::vector<T>& values) {
  return std::ranges::any_of(values, [](const T& value) { return needs_base64(value); });
}
template <class T>
bool needs_base64(const std::map<std::string, T>& values) {
  return std::ranges::any_of(values, [](const auto& entry) { return needs_base64(entry.second); });
}
template <class A, class B>
bool needs_base64(const std::variant<A, B>& value) {
  return std::visit([](const auto& held) { return needs_base64(held); }, value);
}

json put(bool value, const Rule& rule);
json put(std::int64_t value, const Rule& rule);
json put(const std::string& value, const Rule& rule);
json put(const RawJson& value, const Rule& rule);
json put(std::nullptr_t value, const Rule& rule);
/// A name that stands as a key, made UTF-8 where it is not.
std::string key_text(const std::string& name);

template <class T>
  requires std::is_enum_v<T>
json put(T value, const Rule&) {
  return json(name_of(value));
}

template <class T>
json put(const std::optional<T>& value, const Rule& rule) {
  return value ? put(*value, rule) : json();
}

template <class T>
json put_each(const T& values, const Rule& rule) {
  json out = json::array();
  for (const auto& value : values) {
    out.push_back(put(value, rule));
  }
  return out;
}
template <class T>
json put(const std::vector<T>& values, const Rule& rule) {
  return put_each(values, rule);
}
template <class T, std::size_t n>
json put(const std::array<T, n>& values, const Rule& rule) {
  return put_each(values, rule);
}

template <class T>
json put(const std::map<std::string, T>& values, const Rule& rule) {
  json out = json::object();
  for (const auto& [name, value] : values) {
    out[key_text(name)] = put(value, rule);
  }
  return out;
}

template <class A, class B>
json put(const std::variant<A, B>& value, const Rule& rule) {
  return std::visit([&rule](const auto& held) { return put(held, rule); }, value);
}

/// Makes one object from one struct.
class Writer {
 public:
  explicit Writer(json& object) : object_(object) {}

  template <class T>
  void required(std::string_view name, const T& value, Rule rule = {}) {
    rule.as_base64 = rule.is_os && needs_base64(value);
    object_[rule.as_base64 ? std::string(name) + "Bytes" : std::string(name)] = put(value, rule);
  }
  template <class T>
  void nullable(std::string_view name, const T& value, const Rule& rule = {}) {
    required(name, value, rule);
  }
  template <class T>
  void optional(std::string_view name, const T& value, const Rule& rule = {}) {
    required(name, value, rule);
  }
  template <class T>
  void optional(std::string_view name, const std::optional<T>& value, const Rule& rule = {}) {
    if (value) {
      required(name, *value, rule);
    }
  }
  void constant(std::string_view name, bool value) { required(name, value); }
  template <class Kind>
  Kind kind(Kind kind) {
    return kind;
  }
  void exactly_one(std::initializer_list<std::string_view>) {}

 private:
  json& object_;
};

template <class T>
  requires std::is_class_v<T>
json put(const T& value, const Rule&) {
  json out = json::object();
  Writer writer(out);
  members(writer, value);
  return out;
}

template <class T>
nlohmann::json write(const T& value) {
  return put(value, Rule{});
}

}  // namespace rex::wire
