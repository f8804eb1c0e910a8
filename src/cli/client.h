// A client in the same process: a connection to an instance of its own, through a socket pair, so that the command line
// goes the very way every client goes.
#pragma once

#include <functional>
#include <memory>

#include "cli/server.h"

namespace rex::cli {

using Client = std::shared_ptr<rpc::Connection>;

/// Runs `task` with a client of a fresh instance, and ends all it started before it returns the task's exit code.
/// An error that escapes is told on standard error: then it is 1. SIGINT, SIGTERM and SIGHUP end it with 128 + number.
int with_client(shell::Nursery& nursery, std::function<Task<int>(Client)> task);

}  // namespace rex::cli
