#include "mcp/resources.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace rex::mcp {

using nlohmann::json;

namespace {

constexpr std::string_view scheme = "rex://";
constexpr std::string_view middle = "/session/";
constexpr std::string_view query = "?offset=";

/// RFC 3986: everything but the unreserved characters as %HH.
std::string encoded(std::string_view text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos) {
      out += c;
    } else {
      ((out += '%') += hex[byte >> 4]) += hex[byte & 15];
    }
  }
  return out;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() != 2 || end.ptr != digits.data() + 2) {
      return std::nullopt;
    }
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

Task<json> list_logs_of(Toolbox& toolbox, std::string host, Cancel* cancel) {
  const json list = co_await toolbox.ask("session/list", json::object(), host, cancel);
  json resources = json::array();
  for (const json& info : list["sessions"]) {
    const Place place{info["session"], host};
    const std::string name = (host.empty() ? "" : host + ": ") + place.session;
    resources.push_back({{"uri", uri_of(place)},
                         {"name", name},
                         {"description", "What session " + name + " wrote; it is " + info["state"].get<std::string>()},
                         {"mimeType", "text/plain"}});
  }
  co_return resources;
}

}  // namespace

std::string uri_of(const Place& place) {
  return std::string(scheme) + encoded(place.host) + std::string(middle) + encoded(place.session);
}

std::optional<LogUri> parse_log_uri(std::string_view uri) {
  if (!uri.starts_with(scheme)) {
    return std::nullopt;
  }
  uri.remove_prefix(scheme.size());
  LogUri log;
  if (const std::size_t at = uri.find(query); at != std::string_view::npos) {
    const std::string_view number = uri.substr(at + query.size());
    const auto end = std::from_chars(number.data(), number.data() + number.size(), log.offset.emplace());
    if (number.empty() || end.ptr != number.data() + number.size() || end.ec != std::errc()) {
      return std::nullopt;
    }
    uri = uri.substr(0, at);
  }
  const std::size_t at = uri.find(middle);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::optional<std::string> host = decoded(uri.substr(0, at));
  std::optional<std::string> session = decoded(uri.substr(at + middle.size()));
  if (!host || !session || session->empty()) {
    return std::nullopt;
  }
  log.place = {std::move(*session), std::move(*host)};
  return log;
}

Task<json> list_logs(Toolbox& toolbox, Cancel* cancel) {
  json resources = co_await list_logs_of(toolbox, "", cancel);
  const json list = co_await toolbox.ask("host/list", json::object(), "", cancel);
  for (const json& host : list["hosts"]) {
    if (host["state"] != "ready") {
      continue;  // to list is not to dial
    }
    try {
      const json more = co_await list_logs_of(toolbox, host["name"], cancel);
      resources.insert(resources.end(), more.begin(), more.end());
    } catch (const Error& error) {
      if (error.fault() == Fault::RequestCancelled) {
        throw;
      }  // otherwise it was lost just now, and its logs with it
    }
  }
  co_return resources;
}

json log_templates() {
  return json::array({{{"uriTemplate", "rex://{host}/session/{session}{?offset}"},
                       {"name", "Session log"},
                       {"description", "What a session wrote, " + std::to_string(max_log_bytes) +
                                           " bytes at most: the newest, or those from offset on. host is empty for "
                                           "this machine."},
                       {"mimeType", "text/plain"}}});
}

Task<json> read_log(Toolbox& toolbox, std::string uri, LogUri log, Cancel* cancel) {
  json asked{{"session", log.place.session}};
  const json info = co_await toolbox.ask("session/info", asked, log.place.host, cancel);
  const auto oldest = info["oldest"].get<std::uint64_t>();
  const auto next = info["next"].get<std::uint64_t>();
  const std::uint64_t newest = std::max(oldest, next - std::min<std::uint64_t>(next, max_log_bytes));
  asked["offset"] = log.offset.value_or(newest);
  asked["maxBytes"] = max_log_bytes;
  asked["view"] = "clean";
  const json read = co_await toolbox.ask("session/read", std::move(asked), log.place.host, cancel);
  std::string text;
  if (!log.offset && newest > oldest) {
    text = "[" + std::to_string(newest - oldest) + " bytes before this: " + uri_of(log.place) + std::string(query) +
           std::to_string(oldest) + "]\n";
  }
  text += read["data"].get<std::string>();
  if (read["next"] < read["end"]) {
    text = with_line(text, "[more: " + uri_of(log.place) + std::string(query) + read["next"].dump() + "]\n");
  }
  co_return json::array({{{"uri", uri}, {"mimeType", "text/plain"}, {"text", std::move(text)}}});
}

}  // namespace rex::mcp
