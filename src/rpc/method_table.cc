#include "rpc/method_table.h"

#include <utility>

namespace rex::rpc {

using nlohmann::json;

void MethodTable::bind(std::string name, Handler handler) {
  handlers_.insert_or_assign(std::move(name), std::move(handler));
}

void MethodTable::bind_notification(std::string name, NotificationHandler handler) {
  notification_handlers_.insert_or_assign(std::move(name), std::move(handler));
}

Task<Result> MethodTable::call(std::string_view method, json params, Call& call) const {
  const auto found = handlers_.find(method);
  if (found == handlers_.end()) {
    throw Error(Fault::MethodNotFound, "no method " + printable(method, 64));
  }
  if (params.is_null()) {
    params = json::object();
  }
  if (!params.is_object()) {
    throw Error(Fault::InvalidParams, "params is an object: members are named here, never given by position");
  }
  return found->second(std::move(params), call);
}

void MethodTable::notification(std::string_view method, json params, const std::shared_ptr<Connection>& from) const {
  const auto found = notification_handlers_.find(method);
  if (params.is_null()) {
    params = json::object();
  }
  if (found != notification_handlers_.end() && params.is_object()) {
    found->second(std::move(params), from);
  }
}

std::vector<std::string> MethodTable::names() const {
  std::vector<std::string> names;
  for (const auto& [name, handler] : handlers_) {
    names.push_back(name);
  }
  return names;
}

}  // namespace rex::rpc
