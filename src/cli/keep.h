// The process that keeps one daemon session: an instance like any other, without a client of its own, that ends with
// its session. And how it is started. Must not know how clients find it (methods/keepers.h).
#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <string>

#include "methods/keepers.h"
#include "shell/nursery.h"

namespace rex::cli {

struct KeepOptions {
  std::string session;
  rlim_t open_files = 0;           // the soft limit that what it starts is to have
  std::string core_filter;         // likewise (base/secret.h)
  std::size_t journal_memory = 0;  // as of the instance that started it
};

/// Leaves its parents, and serves until its session is over. Says `ready` on standard output once it listens, or what
/// is wrong. Makes its own nursery.
int keep(const KeepOptions& options);

/// Starts such processes from this very program, with our environment, working directory and what the nursery was
/// given.
methods::Keepers::Start make_keeper_starter(Executor executor, const shell::Nursery& nursery,
                                            std::size_t journal_memory);

}  // namespace rex::cli
