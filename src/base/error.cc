#include "base/error.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/encoding.h"

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

bool Error::has(std::string_view fact) const {
  return std::any_of(facts_.begin(), facts_.end(), [fact](const auto& each) { return each.first == fact; });
}

std::string error_name(int error_number) {
  const char* const name = strerrorname_np(error_number);
  return name != nullptr ? name : "?";
}

Error host_unreachable(std::string_view phase, std::string detail) {
  const std::string before = std::string(phase) + ": ";
  return host_unreachable(phase, std::move(detail), before);
}

Error host_unreachable(std::string_view phase, std::string detail, std::string_view before) {
  Error error(Fault::HostUnreachable, std::string(before) + detail);
  return std::move(error).with("phase", std::string(phase)).with("detail", std::move(detail));
}

Error os_error(std::string_view what, int error_number, std::string_view path) {
  std::string message{what};
  if (!path.empty()) {
    message += std::string(" ") + printable(path);
  }
  message += std::string(": ") + strerrordesc_np(error_number);
  Error error(Fault::OsError, std::move(message));
  return std::move(error)
      .with("errno", std::int64_t{error_number})
      .with("name", error_name(error_number))
      .with("path", std::string(path));
}

Error invalid_params(std::string_view member, std::string_view problem) {
  std::string where = printable(member);
  Error error(Fault::InvalidParams, "params." + where + ": " + std::string(problem));
  return std::move(error).with("member", std::move(where));
}

Error limit_exceeded(std::string_view limit, std::int64_t value, std::int64_t max) {
  Error error(Fault::LimitExceeded,
              std::string(limit) + " is " + std::to_string(value) + ", the most allowed is " + std::to_string(max));
  return std::move(error).with("limit", std::string(limit)).with("value", value).with("max", max);
}

namespace {

void append_escaped(std::string& out, std::string_view bytes) {
  static constexpr char hex[] = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += hex[byte >> 4];
    out += hex[byte & 15];
  }
}

/// Whether `text` begins with a control character: C0, DEL or C1 (the last as UTF-8).
bool begins_with_control(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  return byte < 0x20 || byte == 0x7f || (byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
}

/// Whether `text` begins with what a reader would take for one of our own escapes.
bool begins_like_an_escape(std::string_view text) {
  const auto is_hex = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
  return text.size() >= 4 && text.starts_with("\\x") && is_hex(text[2]) && is_hex(text[3]);
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string_view rest = text.substr(0, max_bytes);
  if (rest.size() < text.size()) {
    rest.remove_suffix(incomplete_utf8_tail(rest));
  }
  std::string out;
  while (!rest.empty()) {
    const std::size_t length = utf8_sequence(rest);
    const std::string_view next = rest.substr(0, length == 0 ? 1 : length);
    if (length == 0 || begins_with_control(rest) || begins_like_an_escape(rest)) {
      append_escaped(out, next);
    } else {
      out += next;
    }
    rest.remove_prefix(next.size());
  }
  if (text.size() > max_bytes) {
    out += "… (" + std::to_string(text.size()) + " bytes)";
  }
  return out;
}

}  // namespace rex
