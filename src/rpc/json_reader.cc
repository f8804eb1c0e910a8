#include "rpc/json_reader.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/encoding.h"

namespace rex::rpc {

namespace {

using nlohmann::json;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

json number_of(const std::string& token, bool integer) {
  const char* const end = token.data() + token.size();
  if (integer) {
    std::int64_t small = 0;
    if (std::from_chars(token.data(), end, small).ec == std::errc()) {
      return small;
    }
    std::uint64_t large = 0;
    if (token.front() != '-' && std::from_chars(token.data(), end, large).ec == std::errc()) {
      return large;
    }
  }
  double real = 0;
  if (std::from_chars(token.data(), end, real).ec != std::errc()) {
    real = std::strtod(token.c_str(), nullptr);  // out of range: an infinity or zero, which no typed reader mistakes
  }
  return real;
}

/// One pass over one text, without recursion. While something is refused it goes on checking the syntax, but builds
/// nothing: malformed always comes before refused.
class Reader {
 public:
  Reader(std::string_view text, const Limits& limits)
      : limits_(limits), begin_(text.data()), p_(begin_), end_(begin_ + text.size()) {}

  Document read() {
    skip_space();
    if (p_ != end_ && *p_ != '[') {
      document_.passages.emplace_back();
    }
    bool sound = begin_value(&document_.root, nullptr);
    while (sound && !levels_.empty()) {
      sound = !deep_.empty() ? next_too_deep() : levels_.back().is_object ? next_member() : next_element();
    }
    skip_space();
    if (!sound || p_ != end_) {
      document_.refused = Error(Fault::ParseError, "not JSON, from byte " + std::to_string(p_ - begin_) + " on");
    }
    return std::move(document_);
  }

 private:
  struct Level {
    json* node;  // null: not built
    bool is_object;
    std::size_t count = 0;
    const char* start;
    std::string_view* span;  // where to note the extent of this container, or null
  };

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

  void refuse(Error error) {
    if (!document_.passages.empty() && !document_.passages.back().refused) {
      document_.passages.back().refused = std::move(error);
    }
    building_ = false;
  }

  bool is_batch() const { return levels_.front().is_object == false; }
  /// Whether the innermost container is a message itself, so that its members are the envelope.
  bool in_envelope() const { return levels_.size() == (is_batch() ? 2u : 1u); }

  /// Puts the value at p_ into `into` (unless null) and its extent into `span` (unless null). A container is only
  /// opened.
  bool begin_value(json* into, std::string_view* span) {
    if (p_ == end_) {
      return false;
    }
    if (++values_ == limits_.json_values + 1) {
      document_.refused = limit_exceeded("jsonValues", static_cast<std::int64_t>(values_),
                                         static_cast<std::int64_t>(limits_.json_values));
    }
    if (document_.refused) {
      into = nullptr;
    }
    const char* const start = p_;
    bool sound = false;
    switch (*p_) {
      case '{':
      case '[': return open(into, span);
      case '"':
        sound = read_string();
        store(into, text_);
        break;
      case 't':
        sound = take_word("true");
        store(into, true);
        break;
      case 'f':
        sound = take_word("false");
        store(into, false);
        break;
      case 'n':
        sound = take_word("null");
        store(into, nullptr);
        break;
      default: sound = read_number(into);
    }
    if (span != nullptr) {
      *span = std::string_view(start, static_cast<std::size_t>(p_ - start));
    }
    return sound;
  }

  template <class T>
  static void store(json* into, T&& value) {
    if (into != nullptr) {
      *into = std::forward<T>(value);
    }
  }

  bool open(json* into, std::string_view* span) {
    const bool is_object = *p_ == '{';
    if (levels_.size() == limits_.json_depth) {
      if (building_) {  // once: a text of brackets would make millions of these
        refuse(limit_exceeded("jsonDepth", static_cast<std::int64_t>(limits_.json_depth) + 1,
                              static_cast<std::int64_t>(limits_.json_depth)));
      }
      deep_ += *p_++;
      return true;
    }
    store(into, is_object ? json::object() : json::array());
    levels_.push_back({into, is_object, 0, p_, span});
    ++p_;
    return true;
  }

  bool close() {
    const Level level = levels_.back();
    levels_.pop_back();
    ++p_;
    if (level.span != nullptr) {
      *level.span = std::string_view(level.start, static_cast<std::size_t>(p_ - level.start));
    }
    if (levels_.empty() && !level.is_object && level.count > limits_.batch && !document_.refused) {
      document_.refused =
          limit_exceeded("batch", static_cast<std::int64_t>(level.count), static_cast<std::int64_t>(limits_.batch));
    }
    return true;
  }

  /// At the end of a container, or after the comma before its next item. False for a syntax error.
  bool next_item(char closing, bool* closed) {
    Level& level = levels_.back();
    skip_space();
    *closed = p_ != end_ && *p_ == closing;
    if (*closed) {
      return close();
    }
    if (level.count > 0 && !take(',')) {
      return false;
    }
    ++level.count;
    skip_space();
    return true;
  }

  bool next_element() {
    bool closed = false;
    if (!next_item(']', &closed) || closed) {
      return closed;
    }
    const Level& level = levels_.back();
    const bool is_message = levels_.size() == 1;
    if (is_message) {
      building_ = level.count <= limits_.batch;
      if (building_) {
        document_.passages.emplace_back();
      }
    }
    json* into = nullptr;
    if (building_ && level.node != nullptr && !document_.refused) {
      into = &level.node->emplace_back(nullptr);
    }
    return begin_value(into, nullptr);
  }

  bool next_member() {
    bool closed = false;
    if (!next_item('}', &closed) || closed) {
      return closed;
    }
    if (!read_key()) {
      return false;
    }
    std::string_view* const span = envelope_span();
    json* into = nullptr;
    const Level& level = levels_.back();
    if (building_ && level.node != nullptr && !document_.refused) {
      auto [member, is_new] = level.node->emplace(text_, nullptr);
      if (is_new) {
        into = &*member;
      } else {
        Error error(Fault::InvalidRequest, "the same key twice in one object");
        refuse(std::move(error).with("reason", "duplicateKey").with("member", printable(text_, 64)));
      }
    }
    return begin_value(into, span);
  }

  /// One item of a container below the depth that is allowed. A text may be 16 MiB of brackets, so it costs one byte a
  /// level: the bracket that opened it, or, once it has items, the one that will close it.
  bool next_too_deep() {
    const bool is_object = deep_.back() == '{' || deep_.back() == '}';
    const char closing = is_object ? '}' : ']';
    skip_space();
    if (take(closing)) {
      deep_.pop_back();
      return true;
    }
    if (deep_.back() == closing && !take(',')) {
      return false;
    }
    deep_.back() = closing;
    skip_space();
    return (!is_object || read_key()) && begin_value(nullptr, nullptr);
  }

  bool read_key() {
    skip_space();
    if (!read_string()) {
      return false;
    }
    skip_space();
    if (!take(':')) {
      return false;
    }
    skip_space();
    return true;
  }

  /// Where the extent of the member called text_ is to be noted; null for all but `id` and `params` of a message.
  std::string_view* envelope_span() {
    if (!in_envelope() || document_.passages.empty() || (is_batch() && levels_.front().count > limits_.batch)) {
      return nullptr;
    }
    Passage& passage = document_.passages.back();
    if (text_ == "params") {
      return &passage.params;
    }
    if (text_ != "id") {
      return nullptr;
    }
    if (std::exchange(id_of_, levels_.back().start) == levels_.back().start) {
      passage.id = {};  // twice: whichever is echoed may be the wrong one
      return nullptr;
    }
    return &passage.id;
  }

  /// The string at p_, decoded into text_. That its bytes are UTF-8 has been seen to before.
  bool read_string() {
    text_.clear();
    if (!take('"')) {
      return false;
    }
    while (p_ != end_) {
      const char* const run = p_;
      while (p_ != end_ && *p_ != '"' && *p_ != '\\' && static_cast<unsigned char>(*p_) >= 0x20) {
        ++p_;
      }
      text_.append(run, p_);
      if (take('"')) {
        return true;
      }
      if (!take('\\') || !read_escape()) {
        return false;
      }
    }
    return false;
  }

  bool read_escape() {
    if (p_ == end_) {
      return false;
    }
    const char c = *p_++;
    switch (c) {
      case '"':
      case '\\':
      case '/': text_ += c; return true;
      case 'b': text_ += '\b'; return true;
      case 'f': text_ += '\f'; return true;
      case 'n': text_ += '\n'; return true;
      case 'r': text_ += '\r'; return true;
      case 't': text_ += '\t'; return true;
      case 'u': break;
      default: return false;
    }
    std::uint32_t code = 0;
    std::uint32_t low = 0;
    if (!read_hex(&code)) {
      return false;
    }
    if (code >= 0xd800 && code < 0xe000) {
      if (code >= 0xdc00 || !take('\\') || !take('u') || !read_hex(&low) || low < 0xdc00 || low >= 0xe000) {
        return false;  // half a character cannot be written in UTF-8
      }
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(code);
    return true;
  }

  bool read_hex(std::uint32_t* code) {
    if (end_ - p_ < 4) {
      return false;
    }
    const auto [stop, error] = std::from_chars(p_, p_ + 4, *code, 16);
    const bool sound = error == std::errc() && stop == p_ + 4;
    p_ += sound ? 4 : 0;
    return sound;
  }

  void append_utf8(std::uint32_t code) {
    const auto add = [this](std::uint32_t byte) { text_ += static_cast<char>(byte); };
    if (code < 0x80) {
      add(code);
      return;
    }
    if (code < 0x800) {
      add(0xc0 | code >> 6);
    } else {
      if (code < 0x10000) {
        add(0xe0 | code >> 12);
      } else {
        add(0xf0 | code >> 18);
        add(0x80 | (code >> 12 & 0x3f));
      }
      add(0x80 | (code >> 6 & 0x3f));
    }
    add(0x80 | (code & 0x3f));
  }

  bool read_digits() {
    const char* const start = p_;
    while (p_ != end_ && is_digit(*p_)) {
      ++p_;
    }
    return p_ != start;
  }

  bool read_number(json* into) {
    const char* const start = p_;
    bool integer = true;
    take('-');
    if (!take('0') && !read_digits()) {
      return false;
    }
    if (take('.')) {
      integer = false;
      if (!read_digits()) {
        return false;
      }
    }
    if (take('e') || take('E')) {
      integer = false;
      if (!take('+')) {
        take('-');
      }
      if (!read_digits()) {
        return false;
      }
    }
    const auto bytes = static_cast<std::size_t>(p_ - start);
    if (bytes > limits_.number_bytes) {
      Error error(Fault::InvalidRequest, "a number of " + std::to_string(bytes) + " bytes");
      refuse(std::move(error).with("reason", "numberTooLong"));
    } else if (into != nullptr) {
      *into = number_of(std::string(start, bytes), integer);
    }
    return true;
  }

  const Limits& limits_;
  const char* begin_;
  const char* p_;
  const char* end_;
  Document document_;
  std::vector<Level> levels_;  // at most limits.json_depth
  std::string deep_;           // what is open below that
  std::string text_;           // the last string or key
  std::size_t values_ = 0;
  bool building_ = true;
  const char* id_of_ = nullptr;  // the message whose id has been seen
};

}  // namespace

Document read_json(std::string_view text, const Limits& limits) {
  if (!is_utf8(text)) {
    Document document;
    document.refused = Error(Fault::ParseError, "not UTF-8");
    return document;
  }
  return Reader(text, limits).read();
}

}  // namespace rex::rpc
