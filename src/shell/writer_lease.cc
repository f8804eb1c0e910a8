#include "shell/writer_lease.h"

#include <utility>

#include "base/error.h"

namespace rex::shell {

std::uint64_t WriterLease::take(std::uint64_t client, std::string name, bool takeover) {
  if (!takeover) {
    require(client);
  }
  client_ = client;
  name_ = std::move(name);
  lease_ = ++last_;
  return lease_;
}

bool WriterLease::leave(std::uint64_t lease) {
  if (lease == 0 || lease != lease_) {
    return false;
  }
  lease_ = 0;
  return true;
}

void WriterLease::require(std::uint64_t client) const {
  if (lease_ != 0 && client_ != client) {
    throw Error(Fault::NotWriter, printable(name_) + " holds the lease on typing: attach with takeover to take it")
        .with("writer", name_)
        .retryable();
  }
}

std::optional<std::string> WriterLease::holder() const { return lease_ != 0 ? std::optional(name_) : std::nullopt; }

}  // namespace rex::shell
