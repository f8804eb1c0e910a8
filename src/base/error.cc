#include "base/error.h"

#include <cstring>

namespace rex {

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::ParseError: return "ParseError";
    case Fault::InvalidRequest: return "InvalidRequest";
    case Fault::MethodNotFound: return "MethodNotFound";
    case Fault::InvalidParams: return "InvalidParams";
    case Fault::InternalError: return "InternalError";
    case Fault::ServerNotInitialized: return "ServerNotInitialized";
    case Fault::RequestCancelled: return "RequestCancelled";
    case Fault::Unauthenticated: return "Unauthenticated";
    case Fault::NotPermitted: return "NotPermitted";
    case Fault::SessionNotFound: return "SessionNotFound";
    case Fault::SessionExists: return "SessionExists";
    case Fault::SessionEnded: return "SessionEnded";
    case Fault::SessionBusy: return "SessionBusy";
    case Fault::OffsetGone: return "OffsetGone";
    case Fault::InputRefused: return "InputRefused";
    case Fault::KeyConflict: return "KeyConflict";
    case Fault::OutcomeUnknown: return "OutcomeUnknown";
    case Fault::NotWriter: return "NotWriter";
    case Fault::StartFailed: return "StartFailed";
    case Fault::LimitExceeded: return "LimitExceeded";
    case Fault::Overloaded: return "Overloaded";
    case Fault::HostNotFound: return "HostNotFound";
    case Fault::HostUnreachable: return "HostUnreachable";
    case Fault::HostKeyRejected: return "HostKeyRejected";
    case Fault::HostLost: return "HostLost";
    case Fault::HostLoop: return "HostLoop";
    case Fault::HostProtocol: return "HostProtocol";
    case Fault::HostExists: return "HostExists";
    case Fault::OsError: return "OsError";
    case Fault::Conflict: return "Conflict";
  }
  return "InternalError";
}

Error os_error(std::string_view what, int error_number, std::string_view path) {
  const char* name = strerrorname_np(error_number);
  std::string message{what};
  if (!path.empty()) {
    message += std::string(" ") + printable(path);
  }
  message += std::string(": ") + strerrordesc_np(error_number);
  Error error(Fault::OsError, std::move(message));
  return std::move(error)
      .with("errno", std::int64_t{error_number})
      .with("name", std::string(name != nullptr ? name : "?"))
      .with("path", std::string(path));
}

Error invalid_params(std::string_view member, std::string_view problem) {
  std::string where = printable(member);
  Error error(Fault::InvalidParams, "params." + where + ": " + std::string(problem));
  return std::move(error).with("member", std::move(where));
}

Error limit_exceeded(std::string_view limit, std::int64_t value, std::int64_t max) {
  Error error(Fault::LimitExceeded, std::string(limit) + " is " + std::to_string(value) + ", the most allowed is " +
                                        std::to_string(max));
  return std::move(error).with("limit", std::string(limit)).with("value", value).with("max", max);
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  for (const char c : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      static constexpr char hex[] = "0123456789abcdef";
      out += "\\x";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    } else {
      out += c;
    }
  }
  if (text.size() > max_bytes) {
    out += "… (" + std::to_string(text.size()) + " bytes)";
  }
  return out;
}

}  // namespace rex
