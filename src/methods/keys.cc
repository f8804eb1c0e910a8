#include "methods/keys.h"

#include <algorithm>
#include <optional>

#include "base/digest.h"

namespace rex::methods {

bool has_key(const nlohmann::json& params) {
  const auto key = params.is_object() ? params.find("key") : params.end();
  return key != params.end() && !key->is_null();
}

std::string digest_of(std::string_view method, nlohmann::json params) {
  params.erase("key");
  params.erase("host");
  Sha256 digest;
  digest.update(method);
  digest.update(params.dump());
  return digest.finish();
}

Error outcome_unknown(wire::UnknownReason reason, const std::string& why) {
  return Error(Fault::OutcomeUnknown, "whether this was done before cannot be known: " + why)
      .executed(Executed::unknown)
      .with("reason", std::string(wire::name_of(reason)));
}

Error session_gone(const std::string& session) {
  return outcome_unknown(wire::UnknownReason::noSession,
                         "there is no session " + printable(session) + " any more that would remember it");
}

Error forgotten(const wire::Key& key, std::int64_t acked) {
  return outcome_unknown(wire::UnknownReason::forgotten, "client " + printable(key.client) +
                                                             " has acknowledged all up to " + std::to_string(acked) +
                                                             ", and " + std::to_string(key.seq) + " was forgotten");
}

Error key_conflict(const wire::Key& key) {
  return Error(Fault::KeyConflict, "key " + std::to_string(key.seq) + " of client " + printable(key.client) +
                                       " was another request's; give each new request a higher seq");
}

Error not_awaited() {
  return Error(Fault::RequestCancelled, "cancelled; the request that came first with this key goes on")
      .executed(Executed::unknown);
}

void require_acked_below(const wire::Key& key) {
  if (key.acked.value_or(0) >= key.seq) {
    throw invalid_params("key.acked", "acknowledges the request itself: it must be below seq");
  }
}

bool has_effect(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.was_executed() != Executed::no;
  } catch (...) {
    return true;
  }
}

std::pair<std::shared_ptr<Keys::Kept>, bool> Keys::claim(const wire::Key& key, std::string digest) {
  require_acked_below(key);
  auto at = clients_.find(key.client);
  if (at == clients_.end()) {
    if (kept_ + 2 > max_all_keys) {
      throw limit_exceeded("keys", static_cast<std::int64_t>(kept_) + 2, max_all_keys);
    }
    at = clients_.try_emplace(key.client).first;
    ++kept_;
  }
  Client& client = at->second;
  client.acked = std::max(client.acked, key.acked.value_or(0));
  while (!client.kept.empty() && client.kept.begin()->first <= client.acked) {
    client.kept.erase(client.kept.begin());
    --kept_;
  }
  if (key.seq <= client.acked) {
    throw forgotten(key, client.acked);
  }
  if (const auto known = client.kept.find(key.seq); known != client.kept.end()) {
    if (known->second->digest != digest) {
      throw key_conflict(key);
    }
    return {known->second, false};
  }
  if (client.kept.size() >= static_cast<std::size_t>(wire::limits::keys)) {
    throw limit_exceeded("keys", static_cast<std::int64_t>(client.kept.size()) + 1, wire::limits::keys);
  }
  if (kept_ + 1 > max_all_keys) {
    throw limit_exceeded("keys", static_cast<std::int64_t>(kept_) + 1, max_all_keys);
  }
  auto kept = std::make_shared<Kept>();
  kept->digest = std::move(digest);
  client.kept.emplace(key.seq, kept);
  ++kept_;
  return {std::move(kept), true};
}

void Keys::settle(const wire::Key& key, Kept& kept) {
  kept.is_settled = true;
  if (kept.failure && !has_effect(kept.failure)) {
    Client& client = clients_[key.client];
    if (const auto at = client.kept.find(key.seq); at != client.kept.end() && at->second.get() == &kept) {
      client.kept.erase(at);
      --kept_;
    }
  }
  kept.settled.notify();
}

Task<> Keys::until_settled(std::shared_ptr<Kept> kept, Cancel& cancel) {
  Waiter waiter(executor_);
  waiter.subscribe(kept->settled);
  waiter.subscribe(cancel.changed());
  while (!kept->is_settled && !cancel) {
    co_await waiter.until(never);
  }
  if (!kept->is_settled) {
    throw not_awaited();
  }
}

}  // namespace rex::methods
