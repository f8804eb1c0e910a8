// How a typed handler becomes a row of the method table: params are read strictly before it, its result written after.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/secret.h"
#include "methods/key_store.h"
#include "methods/keys.h"
#include "methods/wire.gen.h"
#include "rpc/method_table.h"

namespace rex::methods {

/// What must leave no copy is taken out of the message before anything copies it.
template <class Params>
std::string take_secret(nlohmann::json& params) {
  if constexpr (requires(Params p) {
                  p.secret;
                  p.data;
                }) {
    const auto data = params.is_object() ? params.find("data") : params.end();
    if (data != params.end() && data->is_string() && params.value("secret", nlohmann::json()) == true) {
      return in_own_memory(data->template get_ref<std::string&>());
    }
  }
  return {};
}

template <class M, class Answer, class Handler>
Task<Answer> answer(Handler handler, nlohmann::json params, rpc::Call& call) {
  std::string secret = take_secret<typename M::Params>(params);
  const Wiper wiper(&secret);
  typename M::Params typed = wire::read<typename M::Params>(params);
  if constexpr (requires {
                  typed.secret;
                  typed.data;
                }) {
    if (!secret.empty()) {
      typed.data = std::move(secret);
    }
  }
  if constexpr (std::is_same_v<std::invoke_result_t<Handler&, typename M::Params, rpc::Call&>, typename M::Result>) {
    co_return wire::write(handler(std::move(typed), call));
  } else {
    const typename M::Result result = co_await handler(std::move(typed), call);
    co_return wire::write(result);
  }
}

/// What `host` has answered to a request of ours. Throws HostProtocol for what is no such result.
template <class Result>
Result read_answer(rpc::Result answer, const std::string& host) {
  try {
    return wire::read_result<Result>(std::move(answer).tree());
  } catch (const Error& error) {
    throw Error(Fault::HostProtocol, error.message()).executed(Executed::unknown).with("host", host);
  }
}

/// `handler(Params, Call&)` returns the method's Result, or a Task of it.
template <class M, class Handler>
void bind(rpc::MethodTable& table, Handler handler) {
  table.bind(std::string(M::name), [handler](nlohmann::json params, rpc::Call& call) {
    return answer<M, rpc::Result>(handler, std::move(params), call);
  });
}

/// Where answers are kept: in this process, or in files for all of this user's, or both.
struct Memory {
  Keys* keys = nullptr;
  KeyStore* store = nullptr;
};

template <class M, class Handler>
Task<rpc::Result> answer_once(Memory memory, Handler handler, nlohmann::json params, rpc::Call& call) {
  const typename M::Params typed = wire::read<typename M::Params>(params);
  std::function<Task<nlohmann::json>()> work = [&] {
    return answer<M, nlohmann::json>(handler, std::move(params), call);
  };
  std::function<Task<nlohmann::json>()> stored = [&] {
    return memory.store->once(*typed.key, M::name, wire::write(typed), call.cancel(), std::move(work));
  };
  if (memory.keys == nullptr) {
    co_return co_await stored();
  }
  std::string digest = digest_of(M::name, wire::write(typed));
  std::function<Task<nlohmann::json>()> first = memory.store != nullptr ? std::move(stored) : std::move(work);
  co_return co_await memory.keys->once<nlohmann::json>(*typed.key, std::move(digest), call.cancel(), std::move(first));
}

/// What came without a key is answered as ever.
template <class M, class Handler>
Task<rpc::Result> answer_by_key(Memory memory, Handler handler, nlohmann::json params, rpc::Call& call) {
  return has_key(params) ? answer_once<M>(memory, std::move(handler), std::move(params), call)
                         : answer<M, rpc::Result>(std::move(handler), std::move(params), call);
}

/// As `bind`, for a method that takes a `key`: with one its handler runs once, and what it answers is kept. What is in
/// `memory` must outlive the table.
template <class M, class Handler>
void bind_once(rpc::MethodTable& table, Memory memory, Handler handler) {
  table.bind(std::string(M::name), [memory, handler](nlohmann::json params, rpc::Call& call) {
    return answer_by_key<M>(memory, handler, std::move(params), call);
  });
}

/// `handler(Params, from)` takes a notification of the client.
template <class M, class Handler>
void bind_notification(rpc::MethodTable& table, Handler handler) {
  table.bind_notification(std::string(M::name),
                          [handler](nlohmann::json params, const std::shared_ptr<rpc::Connection>& from) {
                            handler(wire::read<typename M::Params>(params), from);
                          });
}

}  // namespace rex::methods
