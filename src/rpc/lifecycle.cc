#include "rpc/lifecycle.h"

namespace rex::rpc {

std::optional<Error> Lifecycle::refusal(std::string_view method) const {
  if (shut_down_) {
    return Error(Fault::InvalidRequest, "shut down: nothing but exit is taken any more").with("reason", "shutDown");
  }
  if (method == "initialize") {
    if (initialized_) {
      return Error(Fault::InvalidRequest, "initialize comes once").with("reason", "alreadyInitialized");
    }
  } else if (is_stranger()) {
    return Error(Fault::ServerNotInitialized, "initialize comes first on this transport");
  }
  return std::nullopt;
}

}  // namespace rex::rpc
