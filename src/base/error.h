// The one exception type: a fault's name, what happened, and the facts a client can act on.
// Thrown deep, caught at event edges only (a served request, a link, main). Knows no JSON.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rex {

/// The faults of the protocol; the value is the JSON-RPC error code, the enumerator its `type`.
enum class Fault : int {
  ParseError = -32700,
  InvalidRequest = -32600,
  MethodNotFound = -32601,
  InvalidParams = -32602,
  InternalError = -32603,
  ServerNotInitialized = -32002,
  RequestCancelled = -32800,
  Unauthenticated = 1001,
  NotPermitted = 1002,
  SessionNotFound = 1101,
  SessionExists = 1102,
  SessionEnded = 1103,
  SessionBusy = 1104,
  OffsetGone = 1105,
  InputRefused = 1106,
  KeyConflict = 1107,
  OutcomeUnknown = 1108,
  NotWriter = 1109,
  StartFailed = 1110,
  LimitExceeded = 1201,
  Overloaded = 1202,
  HostNotFound = 1301,
  HostUnreachable = 1302,
  HostKeyRejected = 1303,
  HostLost = 1304,
  HostLoop = 1305,
  HostProtocol = 1306,
  HostExists = 1307,
  OsError = 1401,
  Conflict = 1402,
};

/// The wire's `error.data.type`, for example "SessionBusy".
std::string_view name_of(Fault fault);

/// Whether what the request asked for took place, as `error.data.executed` says it.
enum class Executed { no, yes, unknown };

/// Text that is already JSON; only layers that speak JSON make one.
struct RawJson {
  std::string text;
};

using Fact = std::variant<bool, std::int64_t, std::string, std::vector<std::string>, RawJson>;

class Error : public std::exception {
 public:
  Error(Fault fault, std::string message) : fault_(fault), message_(std::move(message)) {}

  /// Adds one member of `error.data`.
  /// By value, like the others: `error = std::move(error).with(…)` must not move an error onto itself.
  Error with(std::string name, Fact value) && {
    facts_.emplace_back(std::move(name), std::move(value));
    return std::move(*this);
  }
  Error executed(Executed executed) && {
    executed_ = executed;
    return std::move(*this);
  }
  Error retryable() && {
    retryable_ = true;
    return std::move(*this);
  }

  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  [[nodiscard]] Executed was_executed() const { return executed_; }
  [[nodiscard]] bool is_retryable() const { return retryable_; }
  [[nodiscard]] const std::vector<std::pair<std::string, Fact>>& facts() const { return facts_; }
  [[nodiscard]] bool has(std::string_view fact) const;

 private:
  Fault fault_;
  std::string message_;
  Executed executed_ = Executed::no;
  bool retryable_ = false;
  std::vector<std::pair<std::string, Fact>> facts_;
};

/// OsError `{errno, name, path}` for `error_number`; `what` says which operation failed.
Error os_error(std::string_view what, int error_number, std::string_view path = {});

/// The kernel's name for an errno, "ENOENT"; "?" for one that has none.
std::string error_name(int error_number);

/// HostUnreachable {phase, detail}; the message is the detail behind `before`, else behind the phase: "tcp: no answer".
Error host_unreachable(std::string_view phase, std::string detail);
Error host_unreachable(std::string_view phase, std::string detail, std::string_view before);

/// InvalidParams that names the member, for example `rows` or `any[1].match`.
Error invalid_params(std::string_view member, std::string_view problem);

/// LimitExceeded `{limit, value, max}`; `limit` is a name of `initialize.limits`.
Error limit_exceeded(std::string_view limit, std::int64_t value, std::int64_t max);

/// `text` made harmless, to be put into a message. Text stays readable in every language; control characters and bytes
/// that are no UTF-8 become `\xHH`, as does a backslash that would look like one of these; what lies beyond `max_bytes`
/// is cut at a character boundary, and the whole size told.
std::string printable(std::string_view text, std::size_t max_bytes = 256);

}  // namespace rex
