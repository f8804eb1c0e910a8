#include "rpc/json_reader.h"

#include <string>
#include <utility>

#include "base/encoding.h"
#include "base/secret.h"
#include "rpc/json_text.h"

namespace rex::rpc {

namespace {

using nlohmann::json;

constexpr std::size_t usual_string = 256;
constexpr std::size_t usual_depth = 8;

/// One pass over one text, without recursion. While something is refused it goes on checking the syntax, but builds
/// nothing: malformed always comes before refused.
class Reader {
 public:
  Reader(std::string_view text, const Limits& limits, Results results) : limits_(limits), results_(results), in_(text) {
    room_.reserve(usual_string);  // a string that is read in one go leaves no copy behind
    levels_.reserve(usual_depth);
  }
  ~Reader() { wipe(room_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Document read() {
    in_.skip_space();
    if (!in_.at_end() && (in_.peek() != '[' || results_ == Results::itself)) {
      document_.passages.emplace_back();
    }
    bool sound = begin_value(&document_.root, nullptr);
    while (sound && !levels_.empty()) {
      sound = !deep_.empty() ? next_too_deep() : levels_.back().is_object ? next_member() : next_element();
    }
    in_.skip_space();
    if (!sound || !in_.at_end()) {
      document_.refused_at = in_.offset();
      document_.refused = Error(Fault::ParseError, "not JSON, from byte " + std::to_string(in_.offset()) + " on");
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

  void refuse(Error error) {
    if (!document_.passages.empty() && !document_.passages.back().refused) {
      document_.passages.back().refused = std::move(error);
      document_.refused_at = in_.offset();
    }
    building_ = false;
  }

  bool is_batch() const { return is_batch(levels_.front()); }
  [[nodiscard]] bool is_batch(const Level& outermost) const {
    return !outermost.is_object && results_ != Results::itself;
  }
  /// Whether the innermost container is a message itself, so that its members are the envelope.
  bool in_envelope() const { return levels_.size() == (is_batch() ? 2u : 1u); }

  /// Puts the next value into `into` (unless null) and its extent into `span` (unless null). A container is only
  /// opened.
  bool begin_value(json* into, std::string_view* span) {
    if (in_.at_end()) {
      return false;
    }
    if (++values_ == limits_.json_values + 1) {
      document_.refused = limit_exceeded("jsonValues", static_cast<std::int64_t>(values_),
                                         static_cast<std::int64_t>(limits_.json_values));
    }
    if (document_.refused) {
      into = nullptr;
    }
    const char* const start = in_.here();
    bool sound = false;
    switch (in_.peek()) {
      case '{':
      case '[': return open(into, span);
      case '"':
        sound = read_text();
        store(into, text_);
        break;
      case 't':
        sound = in_.take_word("true");
        store(into, true);
        break;
      case 'f':
        sound = in_.take_word("false");
        store(into, false);
        break;
      case 'n':
        sound = in_.take_word("null");
        store(into, nullptr);
        break;
      default: sound = read_number(into);
    }
    if (span != nullptr) {
      *span = in_.since(start);
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
    const bool is_object = in_.peek() == '{';
    if (levels_.size() == limits_.json_depth) {
      if (building_) {  // once: a text of brackets would make millions of these
        refuse(limit_exceeded("jsonDepth", static_cast<std::int64_t>(limits_.json_depth) + 1,
                              static_cast<std::int64_t>(limits_.json_depth)));
      }
      deep_ += in_.next();
      return true;
    }
    store(into, is_object ? json::object() : json::array());
    levels_.push_back({into, is_object, 0, in_.here(), span});
    in_.next();
    return true;
  }

  bool close() {
    const Level level = levels_.back();
    levels_.pop_back();
    in_.next();
    if (level.span != nullptr) {
      *level.span = in_.since(level.start);
    }
    if (levels_.empty() && is_batch(level) && level.count > limits_.batch && !document_.refused) {
      document_.refused =
          limit_exceeded("batch", static_cast<std::int64_t>(level.count), static_cast<std::int64_t>(limits_.batch));
    }
    return true;
  }

  /// At the end of a container, or after the comma before its next item. False for a syntax error.
  bool next_item(char closing, bool* closed) {
    Level& level = levels_.back();
    in_.skip_space();
    *closed = !in_.at_end() && in_.peek() == closing;
    if (*closed) {
      return close();
    }
    if (level.count > 0 && !in_.take(',')) {
      return false;
    }
    ++level.count;
    in_.skip_space();
    return true;
  }

  bool next_element() {
    bool closed = false;
    if (!next_item(']', &closed) || closed) {
      return closed;
    }
    const Level& level = levels_.back();
    const bool is_message = levels_.size() == 1 && is_batch();
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
      auto& members = level.node->get_ref<json::object_t&>();
      const std::size_t before = members.size();
      const auto member = members.try_emplace(members.end(), std::string(text_), nullptr);  // most writers sort them
      if (members.size() > before) {
        into = &member->second;
      } else {
        Error error(Fault::InvalidRequest, "the same key twice in one object");
        refuse(std::move(error).with("reason", "duplicateKey").with("member", printable(text_, 64)));
      }
    }
    const bool is_passed_over = results_ == Results::passed_over && is_result(span);
    return begin_value(is_passed_over ? nullptr : into, span);
  }

  /// One item of a container below the depth that is allowed. A text may be 16 MiB of brackets, so it costs one byte a
  /// level: the bracket that opened it, or, once it has items, the one that will close it.
  bool next_too_deep() {
    const bool is_object = deep_.back() == '{' || deep_.back() == '}';
    const char closing = is_object ? '}' : ']';
    in_.skip_space();
    if (in_.take(closing)) {
      deep_.pop_back();
      return true;
    }
    if (deep_.back() == closing && !in_.take(',')) {
      return false;
    }
    deep_.back() = closing;
    in_.skip_space();
    return (!is_object || read_key()) && begin_value(nullptr, nullptr);
  }

  bool read_text() {
    const std::optional<std::string_view> text = in_.read_string(room_);
    text_ = text.value_or("");
    return text.has_value();
  }

  bool read_key() {
    in_.skip_space();
    if (!read_text()) {
      return false;
    }
    in_.skip_space();
    if (!in_.take(':')) {
      return false;
    }
    in_.skip_space();
    return true;
  }

  /// Where the extent of the member called text_ is to be noted; null for all but three of a message's. Notes what kind
  /// of message it makes it.
  std::string_view* envelope_span() {
    if (!in_envelope() || document_.passages.empty() || (is_batch() && levels_.front().count > limits_.batch)) {
      return nullptr;
    }
    Passage& passage = document_.passages.back();
    if (text_ == "params") {
      return &passage.params;
    }
    if (text_ == "result") {
      passage.answers = true;
      return &passage.result;
    }
    passage.asks = passage.asks || text_ == "method";
    passage.answers = passage.answers || text_ == "error";
    if (text_ != "id") {
      return nullptr;
    }
    if (std::exchange(id_of_, levels_.back().start) == levels_.back().start) {
      passage.id = {};  // twice: whichever is echoed may be the wrong one
      return nullptr;
    }
    return &passage.id;
  }

  [[nodiscard]] bool is_result(const std::string_view* span) const {
    return span != nullptr && span == &document_.passages.back().result;
  }

  bool read_number(json* into) {
    Number number;
    if (!in_.read_number(&number)) {
      return false;
    }
    if (number.text.size() > limits_.number_bytes) {
      Error error(Fault::InvalidRequest, "a number of " + std::to_string(number.text.size()) + " bytes");
      refuse(std::move(error).with("reason", "numberTooLong"));
    } else if (into != nullptr) {
      *into = value_of(number);
    }
    return true;
  }

  const Limits& limits_;
  Results results_;
  Scanner in_;
  Document document_;
  std::vector<Level> levels_;  // at most limits.json_depth
  std::string deep_;           // what is open below that
  std::string_view text_;      // the last string or key
  std::string room_;           // for one with escapes
  std::size_t values_ = 0;
  bool building_ = true;
  const char* id_of_ = nullptr;  // the message whose id has been seen
};

}  // namespace

Document read_json(std::string_view text, const Limits& limits, Results results) {
  if (!is_utf8(text)) {
    Document document;
    document.refused = Error(Fault::ParseError, "not UTF-8");
    return document;
  }
  return Reader(text, limits, results).read();
}

}  // namespace rex::rpc
