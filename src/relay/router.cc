#include "relay/router.h"

#include <algorithm>
#include <utility>

namespace rex::relay {

using nlohmann::json;

namespace {

/// The methods that are about this very connection or binary.
bool is_never_routed(std::string_view method) {
  return method == "initialize" || method == "initialized" || method == "shutdown" || method == "exit" ||
         method == "rpc.discover" || method.starts_with("$/");
}

bool is_host_name(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const auto is_allowed = [&](char c) {
    return is_alphanumeric(c) || std::string_view("._-+@:").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= max_host_name_bytes && (is_alphanumeric(name[0]) || name[0] == '_') &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

/// Where `params` wants to be executed.
HostPath host_of(std::string_view method, const json& params) {
  const auto host = params.is_object() && !is_never_routed(method) ? params.find("host") : params.end();
  if (host == params.end() || host->is_null()) {
    return {};
  }
  if (!host->is_string()) {
    throw invalid_params("host", "expected a string");
  }
  return parse_host(host->get_ref<const std::string&>());
}

}  // namespace

HostPath parse_host(std::string_view path) {
  if (path.empty()) {
    return {};
  }
  std::size_t hops = 0;
  for (std::string_view rest = path;; rest.remove_prefix(rest.find('/') + 1)) {
    if (!is_host_name(rest.substr(0, rest.find('/')))) {
      throw invalid_params("host", "a path of host names: letters, digits and . _ - + @ : only, at most " +
                                       std::to_string(max_host_name_bytes) + " each, / between them");
    }
    ++hops;
    if (rest.find('/') == std::string_view::npos) {
      break;
    }
  }
  if (hops > max_hops) {
    throw Error(Fault::HostLoop, "a host path of " + std::to_string(hops) + " names")
        .with("limit", "hops")
        .with("value", static_cast<std::int64_t>(hops))
        .with("max", static_cast<std::int64_t>(max_hops));
  }
  const auto slash = std::min(path.find('/'), path.size());
  return {std::string(path.substr(0, slash)), std::string(path.substr(std::min(slash + 1, path.size())))};
}

Task<json> Router::call(std::string method, json params, rpc::Call& call) {
  const HostPath host = host_of(method, params);
  if (!host.first.empty()) {
    throw Error(Fault::HostNotFound, "no host " + host.first).with("name", host.first);
  }
  return local_.call(method, std::move(params), call);
}

void Router::notification(std::string method, json params, const std::shared_ptr<rpc::Connection>& from) {
  if (host_of(method, params).first.empty()) {
    local_.notification(method, std::move(params), from);
  }
}

}  // namespace rex::relay
