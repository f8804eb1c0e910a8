// The process that programs are started from. See guardian.h for the whole picture.
#pragma once

#include <sys/resource.h>

#include <string>

#include "base/fd.h"
#include "base/secret.h"
#include "shell/launch.h"

namespace rex::shell {

/// Our end of the nursery. Owned by main; must be made before any thread and while little is allocated. One that is
/// made again, as it was let go or killed, is a copy of what we have become.
class Nursery {
 public:
  /// Also raises our own soft limit of open descriptors to the hard one, since a session takes about ten; what is
  /// started gets the limit that we were given, and dumps the core that we were to dump.
  Nursery();

  /// Starts a guardian for `launch` and hands it the program's standard input, output and error.
  /// Returns our end of its control socket, whose first packet is `started` or `failed`. Throws OsError.
  Fd spawn(const Launch& launch, int in, int out, int err);

  /// Lets its processes go, until something is spawned again.
  void rest() { socket_.reset(); }

  /// The soft limit that we were given.
  [[nodiscard]] rlim_t open_files() const { return open_files_.rlim_cur; }
  /// What we were given of base/secret.h's.
  [[nodiscard]] const std::string& core_filter() const { return core_filter_; }

 private:
  void start();

  rlimit open_files_{};  // as we were given it
  std::string core_filter_ = rex::core_filter();
  Fd socket_;
};

}  // namespace rex::shell
