// Programs that lead to other machines, started as all programs are: below a guardian, which ends their tree.
#pragma once

#include <memory>
#include <vector>

#include "base/async.h"
#include "shell/nursery.h"
#include "shell/program.h"
#include "transports/exec.h"

namespace rex::cli {

/// Programs that were started, and may have ended since.
using Started = std::vector<std::weak_ptr<shell::Program>>;

/// They see our own environment, and are noted in `started`. What is passed by reference must outlive the spawner.
transports::Spawner make_spawner(Executor executor, shell::Nursery& nursery, Started& started);

/// Returns when all of them have been let go of, also those that are noted meanwhile; at the deadline at the latest.
/// `started` must outlive it.
Task<> all_let_go(Executor executor, Started& started, TimePoint deadline);

}  // namespace rex::cli
