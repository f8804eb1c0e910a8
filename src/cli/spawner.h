// Programs that lead to other machines, started as all programs are: below a guardian, which ends their tree.
#pragma once

#include "base/async.h"
#include "shell/nursery.h"
#include "transports/exec.h"

namespace rex::cli {

/// They see our own environment. `nursery` must outlive the spawner.
transports::Spawner make_spawner(Executor executor, shell::Nursery& nursery);

}  // namespace rex::cli
