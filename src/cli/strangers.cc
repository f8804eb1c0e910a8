#include "cli/strangers.h"

#include "methods/wire.gen.h"

namespace rex::cli {
namespace {

constexpr Milliseconds handshake{wire::limits::handshakeMs};

Task<> show_out_in_time(std::shared_ptr<rpc::Connection> stranger) {
  co_await rpc::until_closed(stranger, Clock::now() + handshake);
  if (stranger->lifecycle().is_stranger()) {
    stranger->close("no initialize in time");
  }
}

bool is_still_one(const std::weak_ptr<rpc::Connection>& client) {
  const std::shared_ptr<rpc::Connection> living = client.lock();
  return living && !living->is_closed() && living->lifecycle().is_stranger();
}

}  // namespace

void Strangers::watch(const std::shared_ptr<rpc::Connection>& stranger) {
  std::erase_if(waiting_, [](const auto& each) { return !is_still_one(each); });
  if (waiting_.size() >= max_strangers) {
    waiting_.front().lock()->close("too many others have no token either");
    waiting_.pop_front();
  }
  waiting_.push_back(stranger);
  spawn(stranger->executor(), show_out_in_time(stranger));
}

}  // namespace rex::cli
