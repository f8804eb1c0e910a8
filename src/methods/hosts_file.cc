#include "methods/hosts_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/own_file.h"
#include "methods/json_file.h"
#include "relay/router.h"

namespace rex::methods {
namespace {

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

}  // namespace

std::string default_hosts_file() {
  const std::string folder = own_directory("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? "" : folder + "/rex-rpc/hosts.json";
}

relay::Target to_target(const wire::HostEntry& entry, const Deployments& own) {
  const wire::HostOptions options = entry.options.value_or(wire::HostOptions{});
  relay::Target target;
  if (entry.deployment) {
    target = deploy(find_deployment(*entry.deployment, own), options);
  } else {
    refuse_deployment_options(options);
    target.url = entry.url.value_or("");
    target.argv = entry.argv.value_or(std::vector<std::string>{});
  }
  target.token_file = options.tokenFile.value_or("");
  target.install = entry.install;
  return target;
}

Milliseconds to_keep_alive(const std::optional<wire::HostOptions>& options) {
  return Milliseconds(options.value_or(wire::HostOptions{}).keepAliveMs);
}

void HostsFile::take(const nlohmann::json& document) {
  wire::HostsFile file = wire::read_document<wire::HostsFile>(document);
  Deployments deployments = std::move(file.deployments).value_or(Deployments{});
  std::map<std::string, relay::Known> hosts;
  for (const auto& [name, entry] : file.hosts) {
    if (!relay::is_host_name(name)) {
      throw Error(Fault::InvalidParams,
                  "hosts." + printable(name) + ": a host's name has " + std::string(relay::host_name_rule));
    }
    try {
      relay::Target target = to_target(entry, deployments);
      check_(target);
      hosts.emplace(name, relay::Known{std::move(target), to_keep_alive(entry.options)});
    } catch (const Error& error) {
      constexpr std::string_view root = "params";  // of a client's words, which it was written for
      const std::string& problem = error.message();
      throw Error(Fault::InvalidParams, "hosts." + name + problem.substr(problem.starts_with(root) ? root.size() : 0));
    }
  }
  hosts_ = std::move(hosts);
  deployments_ = std::move(deployments);
}

void HostsFile::read() {
  const std::string text = read_own_file(path_, "the hosts file", Trust::settings, max_hosts_file_bytes);
  const nlohmann::json document = parse_json_file(path_, text);
  try {
    take(document);
  } catch (const Error& error) {
    throw with_line(path_, text, error);
  }
}

const std::map<std::string, relay::Known>& HostsFile::hosts() {
  Version version;
  struct stat status{};
  const bool is_there = !path_.empty() && ::stat(path_.c_str(), &status) == 0;
  if (is_there) {
    version = {status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
  }
  if (!is_there && (path_.empty() || errno == ENOENT || errno == ENOTDIR)) {
    version_.reset();
    problem_.reset();
    hosts_.clear();
    deployments_.clear();
    return hosts_;
  }
  if (!is_there || version_ != version) {  // what cannot be looked at is read, to have its error
    version_ = version;
    problem_.reset();
    hosts_.clear();
    deployments_.clear();
    try {
      read();
    } catch (const Error& error) {
      problem_ = error;
    }
  }
  if (problem_) {
    throw *problem_;
  }
  return hosts_;
}

const Deployments& HostsFile::deployments() {
  try {
    hosts();
  } catch (const Error&) {  // those that we have ourselves are still there
  }
  return deployments_;
}

std::optional<relay::Known> HostsFile::find(const std::string& name) {
  try {
    const std::map<std::string, relay::Known>& all = hosts();
    const auto found = all.find(name);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  } catch (const Error& error) {
    throw Error(Fault::HostNotFound, "no host " + printable(name) + " was connected, and " + error.message())
        .with("name", name)
        .with("detail", error.message());
  }
}

}  // namespace rex::methods
