// host/*: names and targets in, links out.
#include <map>
#include <utility>
#include <variant>

#include "base/error.h"
#include "methods/binding.h"
#include "methods/hosts_file.h"
#include "methods/methods.h"
#include "relay/hosts.h"
#include "relay/router.h"

namespace rex::methods {
namespace {

constexpr std::size_t max_shown_noise = 1024;

wire::HostInfo to_wire(const relay::Link& link) {
  wire::HostInfo info;
  info.name = link.name();
  info.url = link.target().url;
  info.argv = link.target().argv;
  info.state = static_cast<wire::HostState>(link.state());
  info.machine = RawJson{link.machine().dump()};
  info.version = link.version();
  info.rttMs = link.round_trip_ms();
  info.hops = 1;
  info.took = link.took();
  if (!link.noise().empty()) {
    info.noise = printable(link.noise(), max_shown_noise);
  }
  if (!link.is_up() && link.state() != relay::LinkState::connecting) {
    info.detail = link.reason();
  }
  return info;
}

Task<wire::HostInfo> connect(wire::HostConnectParams params, rpc::Call& call, relay::Hosts& hosts, HostsFile& file) {
  if (!relay::is_host_name(params.name)) {
    throw invalid_params("name", "one host's name: " + std::string(relay::host_name_rule));
  }
  const wire::HostEntry entry{params.url, params.argv, params.deployment, params.options, params.install};
  relay::Target target = to_target(entry, file.deployments());
  nlohmann::json token;
  if (params.progressToken) {
    std::visit([&token](const auto& given) { token = given; }, *params.progressToken);
  }
  const std::shared_ptr<relay::Link> link = co_await hosts.connect(
      std::move(params.name), std::move(target), to_keep_alive(params.options), std::move(token), call);
  co_return to_wire(*link);
}

/// A host of the file that nobody's request has dialled yet.
wire::HostInfo to_wire(const std::string& name, const relay::Known& known) {
  wire::HostInfo info;
  info.name = name;
  info.url = known.target.url;
  info.argv = known.target.argv;
  info.state = wire::HostState::closed;
  info.machine = RawJson{"{}"};
  info.hops = 1;
  info.detail = "not dialled yet; the first request does it";
  return info;
}

wire::HostListResult list(rpc::Call& call, const relay::Hosts& hosts, HostsFile& file) {
  std::map<std::string, wire::HostInfo> infos;
  wire::HostListResult result;
  try {
    for (const auto& [name, known] : file.hosts()) {
      const std::shared_ptr<relay::Link> link = hosts.shared(name, known.target);
      infos.emplace(name, link ? to_wire(*link) : to_wire(name, known));
    }
  } catch (const Error& error) {
    result.detail = error.message();
  }
  for (const std::shared_ptr<relay::Link>& link : hosts.list(*call.connection())) {
    infos.insert_or_assign(link->name(), to_wire(*link));
  }
  for (auto& [name, info] : infos) {
    result.hosts.push_back(std::move(info));
  }
  return result;
}

wire::HostInfo info_of(const std::string& name, const std::shared_ptr<relay::Link>& link, HostsFile& file) {
  return link ? to_wire(*link) : to_wire(name, file.find(name).value_or(relay::Known{}));
}

}  // namespace

void bind_hosts(rpc::MethodTable& table, relay::Hosts& hosts, HostsFile& file) {
  bind<wire::HostConnect>(table, [&hosts, &file](wire::HostConnectParams params, rpc::Call& call) {
    return connect(std::move(params), call, hosts, file);
  });
  bind<wire::HostList>(
      table, [&hosts, &file](const wire::HostListParams&, rpc::Call& call) { return list(call, hosts, file); });
  bind<wire::HostInfoMethod>(table, [&hosts, &file](const wire::HostInfoParams& params, rpc::Call& call) {
    return info_of(params.name, hosts.find(*call.connection(), params.name), file);
  });
  bind<wire::HostDisconnect>(table, [&hosts, &file](const wire::HostDisconnectParams& params, rpc::Call& call) {
    const std::shared_ptr<relay::Link> link = hosts.find(*call.connection(), params.name);
    hosts.disconnect(*call.connection(), params.name);
    return info_of(params.name, link, file);
  });
}

}  // namespace rex::methods
