#include "relay/names.h"

#include <charconv>

namespace rex::relay {

using nlohmann::json;

namespace {

constexpr char separator = ':';
constexpr std::size_t max_attachment_bytes = 256;

void rewrite_object(json& object, const std::string& name, std::uint64_t channel, bool always) {
  const auto host = object.find("host");
  if (host != object.end() && host->is_string()) {
    *host = host_behind(name, host->get_ref<const std::string&>());
  } else if (host != object.end() || always) {
    object["host"] = name;
  }
  const auto attachment = object.find("attachment");
  if (attachment != object.end() && attachment->is_string()) {
    *attachment = local_attachment(channel, attachment->get_ref<const std::string&>());
  }
}

}  // namespace

std::optional<std::int64_t> natural(const json& object, const char* member) {
  const auto found = object.find(member);
  if (found == object.end() || !found->is_number_integer() || found->get<std::int64_t>() < 0) {
    return std::nullopt;
  }
  return found->get<std::int64_t>();
}

std::string host_behind(const std::string& name, std::string_view path) {
  return path.empty() ? name : name + "/" + std::string(path);
}

std::string local_attachment(std::uint64_t channel, std::string_view far) {
  return std::to_string(channel) + separator + std::string(far.substr(0, max_attachment_bytes));
}

std::optional<std::pair<std::uint64_t, std::string>> far_attachment(std::string_view local) {
  std::uint64_t channel = 0;
  const auto [end, error] = std::from_chars(local.data(), local.data() + local.size(), channel);
  if (error != std::errc() || end == local.data() + local.size() || *end != separator) {
    return std::nullopt;
  }
  return std::pair(channel, std::string(local.substr(static_cast<std::size_t>(end - local.data()) + 1)));
}

void rewrite(json& payload, const std::string& name, std::uint64_t channel, bool always) {
  if (!payload.is_object()) {
    return;
  }
  rewrite_object(payload, name, channel, always);
  for (const char* member : {"info", "result"}) {
    if (const auto inner = payload.find(member); inner != payload.end() && inner->is_object()) {
      rewrite_object(*inner, name, channel, false);
    }
  }
  for (const char* member : {"sessions", "hosts", "forwards"}) {
    if (const auto list = payload.find(member); list != payload.end() && list->is_array()) {
      for (json& inner : *list) {
        if (inner.is_object()) {
          rewrite_object(inner, name, channel, false);
        }
      }
    }
  }
}

Error rewritten(const Error& error, const std::string& name) {
  Error seen(error.fault(), error.message());
  seen = std::move(seen).executed(error.was_executed());
  if (error.is_retryable()) {
    seen = std::move(seen).retryable();
  }
  std::string host = name;
  for (const auto& [member, fact] : error.facts()) {
    const auto* raw = std::get_if<RawJson>(&fact);
    if (raw == nullptr || (member != "host" && member != "result" && member != "hop")) {
      seen = std::move(seen).with(member, fact);
      continue;
    }
    json value = json::parse(raw->text, nullptr, false);
    if (member == "result") {
      rewrite(value, name, 0);
      seen = std::move(seen).with(member, RawJson{value.dump()});
    } else if (value.is_string()) {
      std::string path = host_behind(name, value.get_ref<const std::string&>());
      if (member == "host") {
        host = std::move(path);
      } else {
        seen = std::move(seen).with(member, std::move(path));
      }
    }
  }
  return host.empty() ? seen : std::move(seen).with("host", std::move(host));
}

}  // namespace rex::relay
