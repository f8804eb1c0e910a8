#include "relay/pause.h"

#include <algorithm>
#include <random>
#include <utility>
#include <variant>

namespace rex::relay {

Milliseconds Pause::next() {
  const Milliseconds most = std::exchange(most_, std::min(most_ * 2, longest_pause));
  std::random_device random;
  return most - Milliseconds(random() % static_cast<unsigned>(most.count() / 4));
}

bool is_worth_another_dial(const Error& failure) {
  if (failure.fault() != Fault::HostUnreachable) {
    return failure.fault() == Fault::HostProtocol || failure.fault() == Fault::RequestCancelled;
  }
  // A question without anybody to ask; asked again and again it locks people out.
  return std::ranges::none_of(failure.facts(), [](const auto& fact) {
    const auto* const text = std::get_if<std::string>(&fact.second);
    const auto* const raw = std::get_if<RawJson>(&fact.second);
    return fact.first == "phase" &&
           ((text != nullptr && *text == "auth") || (raw != nullptr && raw->text == "\"auth\""));
  });
}

}  // namespace rex::relay
