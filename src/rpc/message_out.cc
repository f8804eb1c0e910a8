// Messages into text (message.h).
#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/secret.h"
#include "rpc/json_text.h"
#include "rpc/message.h"

namespace rex::rpc {

namespace {

using nlohmann::json;

constexpr std::size_t max_message_bytes = 1024;
constexpr std::size_t usual_request = 256;

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
