// The text of a message: strict JSON into requests, notifications and responses, and answers back into text.
// No I/O; knows no method.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "rpc/limits.h"

namespace rex::rpc {

/// A request, or a notification if `id` is absent.
struct Request {
  std::optional<std::string> id;  // as written by the peer, so that it is echoed byte for byte
  std::string method;
  nlohmann::json params;         // null if absent
  std::string_view params_text;  // as written; valid as long as the text that was parsed
};

/// The peer's answer to a request of ours.
struct Response {
  std::string id;
  bool well_formed = false;  // exactly one of result and error, and an error that is one
  std::string result_text;   // as written: JSON
  std::optional<Error> error;
};

/// What a request is answered with: a tree, or the text of one that has come from elsewhere. Who only passes it on need
/// not take it apart.
class Result {
 public:
  Result(nlohmann::json tree) : value_(std::in_place_index<0>, std::move(tree)) {}
  /// `json` has been read as a part of a message.
  static Result written(std::string json);

  /// Throws HostProtocol for a text that is JSON and yet none that is taken here: with two equal keys, say. A text is
  /// wiped.
  [[nodiscard]] nlohmann::json tree(const Limits& limits = {}) &&;
  void append_to(std::string& out) const;

 private:
  Result() = default;

  std::variant<nlohmann::json, std::string> value_;
};

/// Something that is no JSON-RPC message: `error` is to be answered to `id`, which is "null" if none can be echoed.
struct Invalid {
  std::string id = "null";
  Error error;
  bool is_answer = false;   // by its members, with something in it that is not taken
  bool is_request = false;  // it has a method: nobody waits for it
};

using Message = std::variant<Request, Response, Invalid>;

struct Parsed {
  bool batch = false;  // the answers go out together, as an array
  std::vector<Message> messages;
};

/// Never throws for what a peer can send. A text refused as a whole is one Invalid, outside of any batch.
Parsed parse_messages(std::string_view text, const Limits& limits);

/// What makes two ids the same id: the value, not the spelling ("\u0041" is "A", and "1" is not 1).
/// `id` is a JSON string or integer.
std::string id_key(std::string_view id);

/// The member `id` of an object as it is written; nullopt unless `object_text` is an object that has a valid one.
std::optional<std::string> find_id(std::string_view object_text, const Limits& limits);

/// Answers and requests as one line of JSON. `id` is JSON.
std::string result_message(std::string_view id, const Result& result);
std::string error_message(std::string_view id, const Error& error);
std::string request_message(std::optional<std::string_view> id, std::string_view method, const nlohmann::json& params);

/// `{code, message, data: {type, executed, retryable, ...facts}}`. The message is cut at 1 KiB and holds no control
/// character; a RawJson fact is spliced in; a string that is not UTF-8 becomes `<name>Bytes`, base64.
std::string error_object(const Error& error);

}  // namespace rex::rpc
