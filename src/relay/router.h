// Decides where a request executes: here, or one hop further. Reads only params.host; must not know session methods.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rpc/connection.h"
#include "rpc/method_table.h"

namespace rex::relay {

inline constexpr std::size_t max_hops = 8;
inline constexpr std::size_t max_host_name_bytes = 255;

/// A path of host names, split after its first: "bastion/build7" is {"bastion", "build7"}, "" is {"", ""}.
struct HostPath {
  std::string first;
  std::string rest;
};

/// Throws InvalidParams naming `host` for a name that no host can have, HostLoop for more than max_hops names.
HostPath parse_host(std::string_view path);

/// The Service behind every connection. `host` stays in the params of what is answered here.
class Router : public rpc::Service {
 public:
  /// `local` must outlive the router.
  explicit Router(const rpc::MethodTable& local) : local_(local) {}

  Task<nlohmann::json> call(std::string method, nlohmann::json params, rpc::Call& call) override;
  void notification(std::string method, nlohmann::json params, const std::shared_ptr<rpc::Connection>& from) override;

 private:
  const rpc::MethodTable& local_;
};

}  // namespace rex::relay
