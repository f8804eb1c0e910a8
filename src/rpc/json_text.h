// The text of JSON (RFC 8259), token by token: spaces, words, strings with their escapes, numbers. Knows no value that
// holds another, no message and no limit: those are json_reader's. And values as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rex::rpc {

/// A number as written.
struct Number {
  std::string_view text;
  bool integer = true;  // neither a fraction nor an exponent
};

/// An integer if it is written as one and 64 bits hold it, else the nearest double.
nlohmann::json value_of(const Number& number);

/// Adds `utf8` with quotes and escapes.
void append_string(std::string& out, std::string_view utf8);

/// Adds a value as nlohmann's dump() writes it, without its step per byte. Throws what that throws, for a string that
/// is not UTF-8.
void append_json(std::string& out, const nlohmann::json& value);

/// Wipes every string in it: one may be a secret, and a tree that is let go of leaves what it held.
void wipe_strings(nlohmann::json& value);

/// Where the first byte is that means something else in a string than itself; or the end.
const char* find_escaped(const char* begin, const char* end);

/// A place in a text, which must outlive it. Each reading moves on over what it took, and a failed one stays where the
/// text ceased to be JSON. That the bytes are UTF-8 has been seen to before.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : begin_(text.data()), p_(begin_), end_(begin_ + text.size()) {}

  [[nodiscard]] bool at_end() const { return p_ == end_; }
  /// Not at the end, like next().
  [[nodiscard]] char peek() const { return *p_; }
  char next() { return *p_++; }
  [[nodiscard]] const char* here() const { return p_; }
  [[nodiscard]] std::string_view since(const char* start) const {
    return std::string_view(start, static_cast<std::size_t>(p_ - start));
  }
  [[nodiscard]] std::size_t offset() const { return static_cast<std::size_t>(p_ - begin_); }

  void skip_space() {
    while (p_ != end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\t' || *p_ == '\r')) {
      ++p_;
    }
  }

  bool take(char c) {
    if (p_ == end_ || *p_ != c) {
      return false;
    }
    ++p_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (!std::string_view(p_, static_cast<std::size_t>(end_ - p_)).starts_with(word)) {
      return false;
    }
    p_ += word.size();
    return true;
  }

  /// The string that begins here, decoded: where it stands, or in `room` if it has escapes. Nullopt if there is none,
  /// and for half a surrogate pair.
  std::optional<std::string_view> read_string(std::string& room) {
    if (!take('"')) {
      return std::nullopt;
    }
    const std::string_view plain = take_plain();
    if (take('"')) {
      return plain;
    }
    return read_escaped(plain, room) ? std::optional<std::string_view>(room) : std::nullopt;
  }
  bool read_number(Number* number);
  /// Passes over the value that begins here, in a text that is known to be JSON.
  void skip_value();

 private:
  std::string_view take_plain() {
    const char* const start = p_;
    p_ = find_escaped(p_, end_);
    return since(start);
  }
  bool read_escaped(std::string_view plain, std::string& room);
  bool read_escape(std::string& text);
  bool read_hex(std::uint32_t* code);
  bool read_digits();

  const char* begin_;
  const char* p_;
  const char* end_;
};

}  // namespace rex::rpc
