// At most once, with the answer kept: requests that come with a `key` take place once, and each that comes again with
// it gets the answer of the first, or joins it. Must not know what a request does.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/async.h"
#include "base/error.h"
#include "methods/wire.gen.h"

namespace rex::methods {

/// Keys of all clients together, and the clients that have acknowledged theirs.
inline constexpr std::size_t max_all_keys = 100'000;

/// Whether a request, as it came, has one; not whether that is as it should be.
bool has_key(const nlohmann::json& params);

/// What tells a request from others, for the same key is for the same request: a digest of all that decides what it
/// does. `params` are as wire::write() has them, defaults filled in; `key` and `host` do not count.
std::string digest_of(std::string_view method, nlohmann::json params);

/// OutcomeUnknown `{reason}`: what became of a request with this key cannot be said.
Error outcome_unknown(wire::UnknownReason reason, const std::string& why);

/// The same, as there is no session of this name, and what it remembered is gone too.
Error session_gone(const std::string& session);

/// The other refusals of a key. `acked`: what the client has acknowledged so far.
Error forgotten(const wire::Key& key, std::int64_t acked);
Error key_conflict(const wire::Key& key);
/// Its client waits no longer for what another call with the same key does.
Error not_awaited();
/// Throws InvalidParams for a key that acknowledges itself.
void require_acked_below(const wire::Key& key);

/// What an error says of the request took place, or may have: the key is spent.
bool has_effect(const std::exception_ptr& failure);

/// Passive; what one process remembers. An answer is kept until its client acknowledges it, never longer, and never
/// shorter: where there is no room a new key is refused, and nothing is done.
class Keys {
 public:
  explicit Keys(Executor executor) : executor_(executor) {}

  /// Does `work`, unless a request with this key has done it or is about to; returns what that returned, or throws what
  /// it threw. An error that says that nothing was done frees the key. A wish of `cancel` ends only the waiting for
  /// another's work. Throws KeyConflict where the key was another request's, OutcomeUnknown `forgotten`, LimitExceeded
  /// `keys`, InvalidParams.
  template <class T>
  Task<T> once(wire::Key key, std::string digest, Cancel& cancel, std::function<Task<T>()> work) {
    std::shared_ptr<Kept> kept;
    for (bool is_known = false; !is_known;) {
      bool is_first = false;
      std::tie(kept, is_first) = claim(key, digest);
      if (is_first) {
        try {
          kept->answer = co_await work();
        } catch (...) {
          kept->failure = std::current_exception();
        }
        settle(key, *kept);
      } else {
        co_await until_settled(kept, cancel);
      }
      // What another left undone, because its client wished so or has gone, is ours to do.
      is_known = is_first || !kept->failure || has_effect(kept->failure);
    }
    if (kept->failure) {
      std::rethrow_exception(kept->failure);
    }
    co_return std::any_cast<const T&>(kept->answer);
  }

 private:
  struct Kept {
    std::string digest;
    bool is_settled = false;
    std::any answer;
    std::exception_ptr failure;
    Event settled;
  };
  struct Client {
    std::int64_t acked = 0;
    std::map<std::int64_t, std::shared_ptr<Kept>> kept;  // by seq, all above `acked`
  };

  std::pair<std::shared_ptr<Kept>, bool> claim(const wire::Key& key, std::string digest);
  void settle(const wire::Key& key, Kept& kept);
  Task<> until_settled(std::shared_ptr<Kept> kept, Cancel& cancel);

  Executor executor_;
  std::map<std::string, Client, std::less<>> clients_;
  std::size_t kept_ = 0;  // of all clients, and they themselves
};

}  // namespace rex::methods
