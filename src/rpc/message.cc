#include "rpc/message.h"

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/secret.h"
#include "rpc/json_reader.h"
#include "rpc/json_text.h"

namespace rex::rpc {

namespace {

using nlohmann::json;

constexpr std::size_t max_message_bytes = 1024;
constexpr std::size_t usual_request = 256;

Error invalid_request(std::string message, std::string reason) {
  Error error(Fault::InvalidRequest, std::move(message));
  return std::move(error).with("reason", std::move(reason));
}

bool is_id(std::string_view text, const Limits& limits) {
  return !text.empty() && text.size() <= limits.id_bytes &&
         (text.front() == '"' || text.find_first_not_of("-0123456789") == std::string_view::npos);
}

/// The peer's error as it came: code, message, and every member of data that an Error has no place for as a fact.
std::optional<Error> to_error(const json& object) {
  const auto member = [&object](const char* name) {
    const auto found = object.find(name);
    return found == object.end() ? json() : *found;
  };
  const json code = object.is_object() ? member("code") : json();
  const json message = object.is_object() ? member("message") : json();
  // What only an unsigned holds is beyond any code.
  if (!code.is_number_integer() || code.is_number_unsigned() || !message.is_string() ||
      !std::in_range<std::int32_t>(code.get<std::int64_t>())) {
    return std::nullopt;
  }
  Error error(static_cast<Fault>(code.get<std::int32_t>()), message.get<std::string>());
  const json data = member("data");
  if (!data.is_object()) {
    return error;
  }
  Executed executed = Executed::unknown;
  for (const auto& [name, value] : data.items()) {
    if (name == "executed") {
      executed = value == "no" ? Executed::no : value == "yes" ? Executed::yes : Executed::unknown;
    } else if (name == "retryable") {
      if (value == true) {
        error = std::move(error).retryable();
      }
    } else if (name != "type" || value != name_of(error.fault())) {
      error = std::move(error).with(name, RawJson{value.dump()});
    }
  }
  return std::move(error).executed(executed);
}

Response response_of(const json& object, const Passage& passage) {
  Response response;
  response.id = passage.id;
  const auto result = object.find("result");
  const auto error = object.find("error");
  if (error == object.end()) {
    response.well_formed = true;
    response.result_text = passage.result;
  } else if (result == object.end()) {
    response.error = to_error(*error);
    response.well_formed = response.error.has_value();
  }
  return response;
}

Message message_of(json& object, Passage& passage, const Limits& limits) {
  const bool echo = is_id(passage.id, limits);
  const std::string id(echo ? passage.id : "null");
  const auto invalid = [&](Error error) {
    return Invalid{id, std::move(error), passage.answers && !passage.asks, passage.asks};
  };
  if (passage.refused) {
    return invalid(std::move(*passage.refused));
  }
  if (!object.is_object()) {
    return invalid(invalid_request("a message is an object", "notAnObject"));
  }
  const auto method = object.find("method");
  if (method == object.end() && (object.contains("result") || object.contains("error"))) {
    return response_of(object, passage);
  }
  if (!echo && !passage.id.empty()) {
    return invalid(invalid_request(
        "an id is a string or an integer of at most " + std::to_string(limits.id_bytes) + " bytes", "id"));
  }
  const auto version = object.find("jsonrpc");
  if (version == object.end() || *version != "2.0") {
    return invalid(invalid_request(R"(the member jsonrpc must be "2.0")", "jsonrpc"));
  }
  if (method == object.end() || !method->is_string()) {
    return invalid(invalid_request("a request has a method, a string", "method"));
  }
  Request request;
  request.method = std::move(method->get_ref<std::string&>());
  if (request.method.size() > limits.method_bytes) {
    return invalid(
        invalid_request("a method's name has at most " + std::to_string(limits.method_bytes) + " bytes", "method"));
  }
  if (echo) {
    request.id = id;
  }
  if (const auto params = object.find("params"); params != object.end()) {
    request.params = std::move(*params);
    request.params_text = passage.params;
  }
  return request;
}

bool is_control(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte == 0xc2 && at + 1 < text.size()) {
    return static_cast<unsigned char>(text[at + 1]) < 0xa0;  // U+0080 to U+009F, which some terminals obey
  }
  return byte < 0x20 || byte == 0x7f;
}

/// What may safely be shown to a person: UTF-8 without control characters, at most max_message_bytes long.
std::string presentable(std::string_view text) {
  bool harmless = is_utf8(text);
  for (std::size_t at = 0; harmless && at < text.size(); ++at) {
    harmless = !is_control(text, at);
  }
  if (!harmless) {
    return printable(text, max_message_bytes / 4 - 16);
  }
  std::string_view cut = text.substr(0, max_message_bytes);
  if (cut.size() < text.size()) {
    cut.remove_suffix(incomplete_utf8_tail(cut));
  }
  return std::string(cut);
}

void append_member(std::string& out, std::string_view name) {
  out += ',';
  append_string(out, name);
  out += ':';
}

/// Adds `,"name":value` to an object that has members already.
void append_fact(std::string& out, const std::string& name, const Fact& fact) {
  if (const auto* text = std::get_if<std::string>(&fact)) {
    const bool lossless = is_utf8(*text);
    append_member(out, lossless ? name : name + "Bytes");
    append_string(out, lossless ? *text : to_base64(*text));
    return;
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&fact)) {
    const bool lossless = std::all_of(texts->begin(), texts->end(), [](const std::string& t) { return is_utf8(t); });
    append_member(out, lossless ? name : name + "Bytes");
    const char* separator = "[";
    for (const std::string& each : *texts) {
      out += separator;
      append_string(out, lossless ? each : to_base64(each));
      separator = ",";
    }
    out += texts->empty() ? "[]" : "]";
    return;
  }
  append_member(out, name);
  if (const auto* raw = std::get_if<RawJson>(&fact)) {
    out += raw->text;
  } else if (const auto* number = std::get_if<std::int64_t>(&fact)) {
    out += std::to_string(*number);
  } else {
    out += std::get<bool>(fact) ? "true" : "false";
  }
}

}  // namespace

Parsed parse_messages(std::string_view text, const Limits& limits) {
  Parsed parsed;
  Document document = read_json(text, limits, Results::passed_over);
  if (document.refused) {
    parsed.messages.emplace_back(Invalid{"null", std::move(*document.refused)});
  } else if (!document.root.is_array()) {
    parsed.messages.push_back(message_of(document.root, document.passages.front(), limits));
  } else if (document.root.empty()) {
    parsed.messages.emplace_back(Invalid{"null", invalid_request("a batch of nothing", "emptyBatch")});
  } else {
    parsed.batch = true;
    parsed.messages.reserve(document.passages.size());
    for (std::size_t i = 0; i < document.passages.size(); ++i) {
      parsed.messages.push_back(message_of(document.root[i], document.passages[i], limits));
    }
  }
  return parsed;
}

std::string id_key(std::string_view id) {
  // Without an escape the spelling is the value.
  return id.find('\\') == std::string_view::npos ? std::string(id) : json::parse(id).dump();
}

std::optional<std::string> find_id(std::string_view object_text, const Limits& limits) {
  const Document document = read_json(object_text, limits);
  if (document.refused || !document.root.is_object() || document.passages.front().refused ||
      !is_id(document.passages.front().id, limits)) {
    return std::nullopt;
  }
  return std::string(document.passages.front().id);
}

Result Result::written(std::string json) {
  // A break of the line between two tokens would be one between messages where each has its line.
  for (const char end_of_line : {'\n', '\r'}) {
    if (json.find(end_of_line) != std::string::npos) {
      std::ranges::replace(json, end_of_line, ' ');
    }
  }
  Result result;
  result.value_ = std::move(json);
  return result;
}

json Result::tree(const Limits& limits) && {
  if (auto* tree = std::get_if<json>(&value_)) {
    return std::move(*tree);
  }
  auto& text = std::get<std::string>(value_);
  const Wiper wiper(&text);  // it may have held a secret
  Document document = read_json(text, limits, Results::itself);
  const bool sound = !document.refused && std::ranges::none_of(document.passages, [](const Passage& passage) {
    return passage.refused.has_value();
  });
  if (!sound) {
    throw Error(Fault::HostProtocol, "an answer that is no JSON as it is taken here").executed(Executed::unknown);
  }
  return std::move(document.root);
}

void Result::append_to(std::string& out) const {
  if (const auto* text = std::get_if<std::string>(&value_)) {
    out.reserve(out.size() + text->size() + 1);
    out += *text;
  } else {
    append_json(out, std::get<json>(value_));
  }
}

std::string result_message(std::string_view id, const Result& result) {
  std::string out = R"({"jsonrpc":"2.0","id":)";
  out += id;
  out += R"(,"result":)";
  result.append_to(out);
  out += '}';
  return out;
}

std::string error_message(std::string_view id, const Error& error) {
  std::string out = R"({"jsonrpc":"2.0","id":)";
  out += id;
  out += R"(,"error":)";
  out += error_object(error);
  out += '}';
  return out;
}

std::string request_message(std::optional<std::string_view> id, std::string_view method, const json& params) {
  std::string out = R"({"jsonrpc":"2.0")";
  make_room(out, usual_request);
  if (id) {
    out += R"(,"id":)";
    out += *id;
  }
  append_member(out, "method");
  append_string(out, method);
  if (!params.is_null()) {
    append_member(out, "params");
    append_json(out, params);
  }
  out += '}';
  return out;
}

std::string error_object(const Error& error) {
  const auto& facts = error.facts();
  std::string out = R"({"code":)" + std::to_string(static_cast<int>(error.fault()));
  append_member(out, "message");
  append_string(out, presentable(error.message()));
  append_member(out, "data");
  out += R"({"executed":)";
  switch (error.was_executed()) {
    case Executed::no: out += R"("no")"; break;
    case Executed::yes: out += R"("yes")"; break;
    case Executed::unknown: out += R"("unknown")"; break;
  }
  append_member(out, "retryable");
  out += error.is_retryable() ? "true" : "false";
  // A peer newer than we are may have sent a type of its own.
  if (!error.has("type")) {
    append_member(out, "type");
    append_string(out, name_of(error.fault()));
  }
  for (const auto& [name, fact] : facts) {
    append_fact(out, name, fact);
  }
  out += "}}";
  return out;
}

}  // namespace rex::rpc
