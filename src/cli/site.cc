#include "cli/site.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "methods/hosts_file.h"

namespace rex::cli {

using nlohmann::json;

Task<json> Site::call(std::string method, json params) const {
  if (!host.empty()) {
    params["host"] = host;
  }
  const Client held = client;
  co_return co_await held->call(std::move(method), std::move(params));
}

bool is_host_url(const std::string& host) { return host.starts_with("exec:") || host.find("://") != std::string::npos; }

std::string name_for(const std::string& url) {
  std::string name = url.starts_with("exec:") ? "exec" : url;
  if (const std::size_t slashes = name.find("//"); slashes != std::string::npos) {
    name.erase(slashes, 2);
  }
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && std::string_view("._-+@:").find(c) == std::string::npos; },
      '-');
  return name.substr(0, 255);
}

Error explained(const Error& error, const std::string& name) {
  if (error.fault() != Fault::HostNotFound || error.has("host") || error.has("detail")) {
    return error;  // of a host further on, or of a file that cannot be read
  }
  return Error(Fault::HostNotFound,
               "no host " + printable(name) + " in " + printable(methods::default_hosts_file()) +
                   ": `rex-rpc hosts` lists those that are; --host also takes a URL, such as ssh://USER@HOST");
}

Task<Site> reach(Client client, std::string host) {
  if (host.empty()) {
    co_return Site{client, ""};
  }
  if (is_host_url(host)) {
    json target{{"name", name_for(host)}, {"url", host}};
    co_await client->call("host/connect", std::move(target));
    co_return Site{client, name_for(host)};
  }
  Site site{client, std::move(host)};
  try {
    co_await site.call("ping", json::object());
  } catch (const Error& error) {
    throw explained(error, site.host.substr(0, site.host.find('/')));
  }
  co_return site;
}

}  // namespace rex::cli
