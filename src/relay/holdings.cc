#include "relay/holdings.h"

#include <algorithm>
#include <utility>

#include "relay/names.h"

namespace rex::relay {

using nlohmann::json;

namespace {

bool is_on(std::string_view name, std::string_view path) {
  return path.starts_with(name) && (path.size() == name.size() || path[name.size()] == '/');
}

std::string text(const json& object, const char* member) {
  const auto found = object.is_object() ? object.find(member) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

json created_at(const json& result) {
  const auto info = result.is_object() ? result.find("info") : result.end();
  return info != result.end() && info->is_object() ? info->value("createdAt", json()) : json();
}

}  // namespace

std::string_view ended_by(std::string_view method) {
  if (method == "session/attach") {
    return "session/detach";
  }
  if (method == "session/subscribe") {
    return "session/unsubscribe";
  }
  return method == "file/watch" ? "file/unwatch" : "";
}

Holdings::Name* Holdings::find(const std::string& path) {
  const auto found = std::ranges::find(names_, path, &Name::path);
  return found == names_.end() ? nullptr : &*found;
}

void Holdings::connected(const std::string& host, json params) {
  std::string path = host.empty() ? text(params, "name") : host + "/" + text(params, "name");
  params.erase("progressToken");
  const auto deployment = params.find("deployment");
  if (deployment != params.end() && !deployment->is_null()) {
    std::erase_if(names_, [&](const Name& name) { return name.path == path; });
    return;
  }
  if (Name* const known = find(path)) {
    *known = Name{std::move(path), std::move(params)};
  } else if (names_.size() < max_held) {
    names_.push_back(Name{std::move(path), std::move(params)});
  }
}

void Holdings::disconnected(const std::string& path) {
  name_is_gone(path);
  if (!path.empty()) {
    std::erase_if(streams_, [&](const auto& stream) { return is_on(path, stream.second.host); });
  }
}

void Holdings::name_is_gone(const std::string& path) {
  std::erase_if(names_, [&](const Name& name) { return is_on(path, name.path); });
}

void Holdings::made(std::string_view method, json params, const json& result, const std::string& local) {
  if (streams_.size() >= max_held) {
    return;
  }
  Stream stream{std::string(method), std::move(params), "", text(result, "attachment")};
  stream.host = text(stream.params, "host");
  if (method == "session/attach") {
    stream.next = natural(result, "offset");
    stream.acked = stream.next.value_or(0);
    stream.created = created_at(result);
  }
  streams_.insert_or_assign(local, std::move(stream));
}

bool Holdings::forget(const std::string& local) {
  const auto found = streams_.find(local);
  if (found == streams_.end()) {
    return false;
  }
  if (found->second.far) {
    again_.erase(*found->second.far);
  }
  streams_.erase(found);
  return true;
}

void Holdings::acknowledged(const std::string& local, std::int64_t upto) {
  if (const auto found = streams_.find(local); found != streams_.end() && found->second.next) {
    found->second.acked = std::max(found->second.acked, std::min(upto, *found->second.next));
  }
}

bool Holdings::told(const std::string& local, std::string_view method, const json& params) {
  const auto found = streams_.find(local);
  if (found == streams_.end()) {
    return true;
  }
  if (method == "attachment/ended") {
    forget(local);
    return true;
  }
  if (method != "session/output") {
    return true;
  }
  Stream& stream = found->second;
  const std::optional<std::int64_t> begin = natural(params, "offset");
  const std::optional<std::int64_t> end = natural(params, "next");
  if (stream.next) {
    const auto gap = params.find("gap");
    const std::optional<std::int64_t> from = gap == params.end() ? begin : natural(*gap, "from");
    if (from != stream.next || !begin || !end) {
      return false;
    }
    stream.acked += *begin - *from;  // what was lost takes up no window
  } else {
    stream.acked = begin.value_or(0);
  }
  stream.next = end;
  if (params.value("eof", json()) == true) {
    streams_.erase(found);  // events may follow, under the id that the client knows
  }
  return true;
}

void Holdings::lost() {
  again_.clear();
  nobodys_.clear();
  for (Name& name : names_) {
    name.there = false;
    name.problem.clear();
  }
  for (auto& [local, stream] : streams_) {
    stream.far.reset();
  }
}

json Holdings::to_resume(const Stream& stream) const {
  json params = stream.params;
  params["resumed"] = true;
  if (stream.next) {
    params["offset"] = *stream.next;
    params["acked"] = stream.acked;
  }
  return params;
}

bool Holdings::resumed(const std::string& local, const json& result) {
  const std::string far = text(result, "attachment");
  const auto found = streams_.find(local);
  const bool is_same = found != streams_.end() &&
                       (found->second.method != "session/attach" || found->second.created == created_at(result));
  if (!is_same) {
    nobodys_.insert(far);
    return false;
  }
  if (found->second.method == "session/attach" && !found->second.next) {
    found->second.next = natural(result, "offset");
    found->second.acked = found->second.next.value_or(0);
  }
  found->second.far = far;
  again_.insert_or_assign(far, local);
  return true;
}

void Holdings::name_is_there(const std::string& path) {
  if (Name* const name = find(path)) {
    name->there = true;
  }
}

void Holdings::name_is_missing(const std::string& path, std::string problem) {
  if (Name* const name = find(path)) {
    name->problem = std::move(problem);
  }
}

const Holdings::Name* Holdings::missing_on(std::string_view path) const {
  const auto found =
      std::ranges::find_if(names_, [&](const Name& name) { return !name.there && is_on(name.path, path); });
  return found == names_.end() ? nullptr : &*found;
}

std::optional<std::string> Holdings::local_id(const std::string& far) const {
  const auto found = again_.find(far);
  return found == again_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace rex::relay
