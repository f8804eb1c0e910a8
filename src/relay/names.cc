#include "relay/names.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "rpc/json_text.h"

namespace rex::relay {

using nlohmann::json;

namespace {

constexpr char separator = ':';
constexpr std::size_t max_attachment_bytes = 256;
constexpr std::size_t usual_growth = 64;  // of a result, by the names of a host

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

constexpr std::string_view inner_objects[] = {"info", "result"};
constexpr std::string_view inner_lists[] = {"sessions", "hosts", "forwards"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// What rewrite() does, without a tree: a result may be long, and most of it is somebody else's.
class TextRewriter {
 public:
  TextRewriter(std::string_view text, const std::string& name, std::uint64_t channel)
      : text_(text), name_(name), channel_(channel), in_(text) {}

  std::string run() {
    out_.reserve(text_.size() + usual_growth);
    in_.skip_space();
    if (!in_.at_end() && in_.peek() == '{') {
      object(true);
    }
    out_ += text_.substr(copied_);
    return std::move(out_);
  }

 private:
  void object(bool outer) {
    in_.next();
    while (!ends_with('}')) {
      const std::string_view key = in_.read_string(room_).value_or("");
      in_.skip_space();
      in_.take(':');
      in_.skip_space();
      member(key, outer);
    }
  }

  void list() {
    in_.next();
    while (!ends_with(']')) {
      if (in_.peek() == '{') {
        object(false);
      } else {
        in_.skip_value();
      }
    }
  }

  /// Of a container; else at its next item.
  bool ends_with(char closing) {
    in_.skip_space();
    if (in_.take(closing) || in_.at_end()) {
      return true;
    }
    in_.take(',');
    in_.skip_space();
    return in_.at_end();
  }

  void member(std::string_view key, bool outer) {
    if (in_.at_end()) {
      return;
    }
    const char first = in_.peek();
    if (key == "host") {
      const std::size_t begin = in_.offset();
      const std::optional<std::string_view> path = first == '"' ? in_.read_string(room_) : std::nullopt;
      if (!path && !in_.at_end()) {
        in_.skip_value();
      }
      replace(begin, path ? host_behind(name_, *path) : name_);
    } else if (key == "attachment" && first == '"') {
      const std::size_t begin = in_.offset();
      replace(begin, local_attachment(channel_, in_.read_string(room_).value_or("")));
    } else if (outer && first == '{' && is_one_of(inner_objects, key)) {
      object(false);
    } else if (outer && first == '[' && is_one_of(inner_lists, key)) {
      list();
    } else {
      in_.skip_value();
    }
  }

  /// What was read from `begin` until here.
  void replace(std::size_t begin, std::string_view with) {
    out_ += text_.substr(copied_, begin - copied_);
    rpc::append_string(out_, with);
    copied_ = in_.offset();
  }

  std::string_view text_;
  const std::string& name_;
  std::uint64_t channel_;
  rpc::Scanner in_;
  std::string room_;  // for a string with escapes
  std::string out_;
  std::size_t copied_ = 0;  // how much of the text is in `out_`
};

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
  for (const std::string_view member : inner_objects) {
    if (const auto inner = payload.find(member); inner != payload.end() && inner->is_object()) {
      rewrite_object(*inner, name, channel, false);
    }
  }
  for (const std::string_view member : inner_lists) {
    if (const auto list = payload.find(member); list != payload.end() && list->is_array()) {
      for (json& inner : *list) {
        if (inner.is_object()) {
          rewrite_object(inner, name, channel, false);
        }
      }
    }
  }
}

std::string rewritten(std::string_view result, const std::string& name, std::uint64_t channel) {
  return TextRewriter(result, name, channel).run();
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
