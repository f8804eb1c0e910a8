// What the lines of wire.gen.cc say of a member beyond its name, shared by reading and writing. Knows neither.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace rex::wire {

/// 2^53 - 1: beyond it, readers that keep numbers in doubles would see another one.
inline constexpr std::int64_t max_safe = 9'007'199'254'740'991;

/// What is checked beyond the type: bounds of an integer, of a string's bytes, of an array's size; and for OS strings,
/// which bytes cannot be.
struct Rule {
  std::int64_t low = -max_safe;
  std::int64_t high = max_safe;
  bool is_os = false;
  bool may_hold_nul = false;
  bool names_variables = false;
  bool as_base64 = false;

  [[nodiscard]] constexpr Rule within(std::int64_t least, std::int64_t most) const {
    Rule rule = *this;
    rule.low = least;
    rule.high = most;
    return rule;
  }
};

constexpr Rule within(std::int64_t low, std::int64_t high) { return Rule{.low = low, .high = high}; }
inline constexpr Rule os{.is_os = true};
inline constexpr Rule os_command{.is_os = true, .may_hold_nul = true};
inline constexpr Rule os_env{.is_os = true, .names_variables = true};

template <class X, class T>
concept Is = std::same_as<std::remove_const_t<X>, T>;

template <class Base, class X>
auto& as(X& x) {
  return static_cast<std::conditional_t<std::is_const_v<X>, const Base, Base>&>(x);
}

}  // namespace rex::wire
