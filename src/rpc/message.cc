#include "rpc/message.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "base/encoding.h"
#include "base/secret.h"
#include "rpc/json_reader.h"
#include "rpc/json_text.h"

namespace rex::rpc {

namespace {

using nlohmann::json;

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

/// What is read of one message.
struct Envelope {
  bool is_object = false;
  bool has_version = false;  // which is the one that is spoken here
  std::string_view id;       // as written; empty if absent, or given twice
  bool asks = false;         // there is a method
  std::optional<std::string> method;
  std::optional<json> params;
  std::string_view params_text;
  bool has_result = false;
  std::string_view result_text;
  std::optional<json> error;
  std::optional<Error> refused;  // something in it is not taken

  [[nodiscard]] bool answers() const { return has_result || error.has_value(); }
};

enum class Member : std::uint8_t { jsonrpc, id, method, params, result, error, other };

Member member_named(std::string_view name) {
  static constexpr std::string_view names[] = {"jsonrpc", "id", "method", "params", "result", "error"};
  return static_cast<Member>(std::ranges::find(names, name) - std::ranges::begin(names));
}

/// Reads envelopes out of a text. What a false one has read is of no use: the text is no JSON.
class EnvelopeReader {
 public:
  explicit EnvelopeReader(JsonReader& in) : in_(in) {}

  bool read(Envelope& envelope) {
    bool sound = true;
    envelope.is_object = in_.is_at('{');
    if (envelope.is_object) {
      sound = read_members(envelope);
    } else {
      sound = in_.read_value(nullptr);
    }
    envelope.refused = in_.take_refusal();
    return sound;
  }

 private:
  bool read_members(Envelope& envelope) {
    unsigned seen = 0;
    std::set<std::string, std::less<>> others;
    bool member = false;
    in_.step_in();
    while (in_.read_item(&member) && member) {
      if (!in_.read_key()) {
        return false;
      }
      const Member which = member_named(in_.text());
      const unsigned bit = 1U << static_cast<unsigned>(which);
      const bool twice =
          which != Member::other ? (seen & bit) != 0 : in_.is_building() && !others.emplace(in_.text()).second;
      seen |= bit;
      if (twice) {
        in_.refuse_twice();
      }
      if (!read_member(which, twice, envelope)) {
        return false;
      }
    }
    return !member;
  }

  bool read_member(Member which, bool twice, Envelope& envelope) {
    const char* const start = in_.here();
    const bool is_text = in_.is_at('"');
    json* tree = nullptr;
    if (which == Member::params) {
      tree = &envelope.params.emplace();
    } else if (which == Member::error) {
      tree = &envelope.error.emplace();
    }
    if (!in_.read_value(tree)) {
      return false;
    }
    switch (which) {
      case Member::jsonrpc: envelope.has_version = is_text && in_.text() == "2.0"; break;
      case Member::id: envelope.id = twice ? "" : in_.since(start); break;  // whichever is echoed may be the wrong one
      case Member::method:
        envelope.asks = true;
        if (is_text) {
          envelope.method = in_.text();
        }
        break;
      case Member::params: envelope.params_text = in_.since(start); break;
      case Member::result:
        envelope.has_result = true;
        envelope.result_text = in_.since(start);
        break;
      case Member::error:
      case Member::other: break;
    }
    return true;
  }

  JsonReader& in_;
};

Response response_of(Envelope& envelope) {
  Response response;
  response.id = envelope.id;
  if (!envelope.error) {
    response.well_formed = true;
    response.result_text = envelope.result_text;
  } else if (!envelope.has_result) {
    response.error = to_error(*envelope.error);
    response.well_formed = response.error.has_value();
  }
  return response;
}

Message message_of(Envelope& envelope, const Limits& limits) {
  const bool echo = is_id(envelope.id, limits);
  const auto invalid = [&](Error error) {
    return Invalid{std::string(echo ? envelope.id : "null"), std::move(error), envelope.answers() && !envelope.asks,
                   envelope.asks};
  };
  if (envelope.refused) {
    return invalid(std::move(*envelope.refused));
  }
  if (!envelope.is_object) {
    return invalid(invalid_request("a message is an object", "notAnObject"));
  }
  if (!envelope.asks && envelope.answers()) {
    return response_of(envelope);
  }
  if (!echo && !envelope.id.empty()) {
    return invalid(invalid_request(
        "an id is a string or an integer of at most " + std::to_string(limits.id_bytes) + " bytes", "id"));
  }
  if (!envelope.has_version) {
    return invalid(invalid_request(R"(the member jsonrpc must be "2.0")", "jsonrpc"));
  }
  if (!envelope.method) {
    return invalid(invalid_request("a request has a method, a string", "method"));
  }
  if (envelope.method->size() > limits.method_bytes) {
    return invalid(
        invalid_request("a method's name has at most " + std::to_string(limits.method_bytes) + " bytes", "method"));
  }
  Request request;
  request.method = std::move(*envelope.method);
  if (echo) {
    request.id = envelope.id;
  }
  if (envelope.params) {
    request.params = std::move(*envelope.params);
    request.params_text = envelope.params_text;
  }
  return request;
}

/// The whole text as it stands, or nothing of it.
std::optional<Error> read_messages(JsonReader& in, const Limits& limits, Parsed& parsed) {
  EnvelopeReader reader(in);
  std::size_t count = 0;
  bool sound = true;
  bool element = true;
  const auto read_one = [&] {
    Envelope envelope;
    sound = reader.read(envelope);
    if (sound && ++count <= limits.batch) {
      parsed.messages.push_back(message_of(envelope, limits));
    }
  };
  parsed.batch = in.is_at('[');
  if (parsed.batch) {
    in.step_in();
    while (sound && in.read_item(&element) && element) {
      read_one();
    }
  } else {
    read_one();
  }
  in.read_end();
  if (std::optional<Error> failure = in.failure()) {
    return failure;
  }
  if (parsed.batch && count == 0) {
    return invalid_request("a batch of nothing", "emptyBatch");
  }
  if (parsed.batch && count > limits.batch) {
    return limit_exceeded("batch", static_cast<std::int64_t>(count), static_cast<std::int64_t>(limits.batch));
  }
  return std::nullopt;
}

}  // namespace

Parsed parse_messages(std::string_view text, const Limits& limits) {
  Parsed parsed;
  std::optional<Error> refused;
  if (is_utf8(text)) {
    JsonReader in(text, limits);
    refused = read_messages(in, limits, parsed);
  } else {
    refused = Error(Fault::ParseError, "not UTF-8");
  }
  if (refused) {
    parsed.batch = false;
    parsed.messages.clear();
    parsed.messages.emplace_back(Invalid{"null", std::move(*refused)});
  }
  return parsed;
}

std::string id_key(std::string_view id) {
  // Without an escape the spelling is the value.
  return id.find('\\') == std::string_view::npos ? std::string(id) : json::parse(id).dump();
}

std::optional<std::string> find_id(std::string_view object_text, const Limits& limits) {
  JsonReader in(object_text, limits);
  Envelope envelope;
  if (!EnvelopeReader(in).read(envelope) || envelope.refused || !is_id(envelope.id, limits)) {
    return std::nullopt;
  }
  return std::string(envelope.id);
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
  Document document = read_json(text, limits);
  if (document.refused) {
    throw Error(Fault::HostProtocol, "an answer that is no JSON as it is taken here").executed(Executed::unknown);
  }
  return std::move(document.root);
}

}  // namespace rex::rpc
