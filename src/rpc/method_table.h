// Names and the handlers bound to them. Must not know which names there are.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/connection.h"

namespace rex::rpc {

/// `params` is always an object: what was absent or null comes as {}.
using Handler = std::function<Task<Result>(nlohmann::json params, Call& call)>;
/// Runs at once, in the order of arrival, and must not block.
using NotificationHandler = std::function<void(nlohmann::json params, const std::shared_ptr<Connection>& from)>;

/// Filled once at start, then only read. Requests and notifications are two tables: a request's name sent without an id
/// is an unknown notification and has no effect, for nobody would learn what it did.
class MethodTable {
 public:
  void bind(std::string name, Handler handler);
  void bind_notification(std::string name, NotificationHandler handler);

  /// Throws MethodNotFound, or InvalidParams when `params` is not an object.
  Task<Result> call(std::string_view method, nlohmann::json params, Call& call) const;
  /// Unknown names and params that are no object are ignored, as JSON-RPC has no answer for them.
  void notification(std::string_view method, nlohmann::json params, const std::shared_ptr<Connection>& from) const;

  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::map<std::string, Handler, std::less<>> handlers_;
  std::map<std::string, NotificationHandler, std::less<>> notification_handlers_;
};

}  // namespace rex::rpc
