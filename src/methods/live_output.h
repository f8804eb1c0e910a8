// A job's output, told live as `$/progress` to the client whose call started it. Must not know how the job ends.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "methods/wire.gen.h"
#include "rpc/connection.h"
#include "shell/session.h"

namespace rex::methods {

/// A job's output on its way to one client while the call that started it waits.
struct LiveOutput {
  std::shared_ptr<shell::Session> session;
  std::shared_ptr<rpc::Connection> connection;
  nlohmann::json token;
  shell::Offset at;
  std::optional<shell::Offset> to;  // what is behind is another's
  Cancel finish;
  bool done = true;
  Event finished;
};

/// Null where the client did not ask for it.
std::shared_ptr<LiveOutput> prepare_live(const wire::SessionRunParams& params,
                                         const std::shared_ptr<shell::Session>& session, rpc::Call& call);
/// `to`: where it ends, if it has.
void start_live(const std::shared_ptr<LiveOutput>& live, shell::Offset from, std::optional<shell::Offset> to,
                Executor executor);
/// Returns once all of it has been sent, which is before the answer.
Task<> finish_live(std::shared_ptr<LiveOutput> live, Executor executor);

}  // namespace rex::methods
