#include "rpc/json_reader.h"

#include <utility>

#include "base/encoding.h"
#include "base/secret.h"

namespace rex::rpc {

namespace {

using nlohmann::json;

constexpr std::size_t usual_depth = 8;

}  // namespace

JsonReader::JsonReader(std::string_view text, const Limits& limits) : limits_(limits), in_(text) {
  levels_.reserve(usual_depth);
}

JsonReader::~JsonReader() { wipe(room_); }

bool JsonReader::read_value(json* into) {
  in_.skip_space();
  bool sound = begin_value(is_building() ? into : nullptr);
  while (sound && levels_.size() > stepped_in_) {
    sound = next_in_container();
  }
  return sound;
}

bool JsonReader::read_key() {
  if (!read_text()) {
    return fail();
  }
  in_.skip_space();
  if (!in_.take(':')) {
    return fail();
  }
  in_.skip_space();
  return true;
}

bool JsonReader::read_item(bool* item) {
  const bool sound = next_item(levels_.back(), item);
  stepped_in_ -= sound && !*item ? 1 : 0;
  return sound;
}

bool JsonReader::read_end() {
  in_.skip_space();
  return in_.at_end() || fail();
}

bool JsonReader::is_at(char c) {
  in_.skip_space();
  return !in_.at_end() && in_.peek() == c;
}

void JsonReader::step_in() {
  ++values_;
  ++stepped_in_;
  open(nullptr);
}

void JsonReader::refuse_twice() {
  Error error(Fault::InvalidRequest, "the same key twice in one object");
  refuse(std::move(error).with("reason", "duplicateKey").with("member", printable(text_, 64)));
}

std::optional<Error> JsonReader::take_refusal() {
  building_ = true;
  return std::exchange(refused_, std::nullopt);
}

std::optional<Error> JsonReader::failure() const {
  if (malformed_) {
    return Error(Fault::ParseError, "not JSON, from byte " + std::to_string(stopped_at_) + " on");
  }
  if (values_ > limits_.json_values) {
    return limit_exceeded("jsonValues", static_cast<std::int64_t>(limits_.json_values) + 1,
                          static_cast<std::int64_t>(limits_.json_values));
  }
  return std::nullopt;
}

bool JsonReader::fail() {
  malformed_ = true;
  stopped_at_ = in_.offset();
  return false;
}

void JsonReader::refuse(Error error) {
  if (!refused_) {
    refused_ = std::move(error);
    stopped_at_ = in_.offset();
  }
  building_ = false;
}

/// A container is only opened, unless it is passed over.
bool JsonReader::begin_value(json* into) {
  if (into == nullptr) {
    return pass_over();
  }
  if (in_.at_end()) {
    return fail();
  }
  const char first = in_.peek();
  if ((first == '{' || first == '[') && levels_.size() == limits_.json_depth) {
    return pass_over();
  }
  ++values_;
  switch (first) {
    case '{':
    case '[': return open(into);
    case '"':
      if (!read_text()) {
        return fail();
      }
      *into = text_;
      return true;
    case 't': *into = true; break;
    case 'f': *into = false; break;
    case 'n': *into = nullptr; break;
    default: return read_number(into) || fail();
  }
  return take_word() || fail();
}

/// The whole of a value. A text may be 16 MiB of brackets, so what is open costs a byte a level.
bool JsonReader::pass_over() {
  do {
    ++values_;
    if (in_.at_end()) {
      return fail();
    }
    const char first = in_.peek();
    if (first == '{' || first == '[') {
      in_.next();
      in_.skip_space();
      note_depth(levels_.size() + passed_.size() + 1);
      passed_ += first == '{' ? '}' : ']';
      if (!in_.take(passed_.back())) {
        if (first == '{' && !read_key()) {
          return false;
        }
        continue;
      }
      passed_.pop_back();
    } else if (first == '"' ? !read_text() : !take_word() && !read_number(nullptr)) {
      return fail();
    }
    // Behind a value: the next one, or the ends of what it ends.
    while (!passed_.empty()) {
      in_.skip_space();
      if (in_.take(',')) {
        in_.skip_space();
        if (passed_.back() == '}' && !read_key()) {
          return false;
        }
        break;
      }
      if (!in_.take(passed_.back())) {
        return fail();
      }
      passed_.pop_back();
    }
  } while (!passed_.empty());
  return true;
}

bool JsonReader::take_word() { return in_.take_word("true") || in_.take_word("false") || in_.take_word("null"); }

bool JsonReader::open(json* into) {
  const bool is_object = in_.next() == '{';
  if (into != nullptr) {
    *into = is_object ? json::object() : json::array();
  }
  levels_.push_back({into, is_object ? '}' : ']'});
  return true;
}

void JsonReader::note_depth(std::size_t depth) {
  if (depth > limits_.json_depth && building_) {  // once: a text of brackets would make millions of these
    refuse(limit_exceeded("jsonDepth", static_cast<std::int64_t>(limits_.json_depth) + 1,
                          static_cast<std::int64_t>(limits_.json_depth)));
  }
}

/// At the next item of a container, behind the comma; or behind its end.
bool JsonReader::next_item(Level& level, bool* item) {
  in_.skip_space();
  *item = !in_.take(level.closing);
  if (!*item) {
    levels_.pop_back();
    return true;
  }
  if (std::exchange(level.has_items, true)) {
    if (!in_.take(',')) {
      return fail();
    }
    in_.skip_space();
  }
  return true;
}

bool JsonReader::next_in_container() {
  Level& level = levels_.back();
  json* const node = is_building() ? level.node : nullptr;
  bool item = false;
  if (!next_item(level, &item) || !item) {
    return !malformed_;
  }
  if (level.closing == ']') {
    return begin_value(node != nullptr ? &node->emplace_back(nullptr) : nullptr);
  }
  return read_key() && begin_value(node != nullptr ? member_of(*node) : nullptr);
}

/// The new member that text_ names; null if there is one already.
json* JsonReader::member_of(json& object) {
  auto& members = object.get_ref<json::object_t&>();
  const std::size_t before = members.size();
  const auto member = members.try_emplace(members.end(), std::string(text_), nullptr);  // most writers sort them
  if (members.size() == before) {
    refuse_twice();
    return nullptr;
  }
  return &member->second;
}

bool JsonReader::read_text() {
  const std::optional<std::string_view> text = in_.read_string(room_);
  text_ = text.value_or("");
  return text.has_value();
}

bool JsonReader::read_number(json* into) {
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

Document read_json(std::string_view text, const Limits& limits) {
  Document document;
  if (!is_utf8(text)) {
    document.refused = Error(Fault::ParseError, "not UTF-8");
    return document;
  }
  JsonReader reader(text, limits);
  if (reader.read_value(&document.root)) {
    reader.read_end();
  }
  document.refused = reader.failure();
  if (!document.refused) {
    document.refused = reader.take_refusal();
  }
  document.refused_at = reader.stopped_at();
  return document;
}

}  // namespace rex::rpc
