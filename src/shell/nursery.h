// The process that programs are started from. See guardian.h for the whole picture.
#pragma once

#include "base/fd.h"
#include "shell/launch.h"

namespace rex::shell {

/// Our end of the nursery. Owned by main; must be made before any thread and while little is allocated.
class Nursery {
 public:
  Nursery() { start(); }

  /// Starts a guardian for `launch` and hands it the program's standard input, output and error.
  /// Returns our end of its control socket, whose first packet is `started` or `failed`. Throws OsError.
  Fd spawn(const Launch& launch, int in, int out, int err);

 private:
  void start();

  Fd socket_;
};

}  // namespace rex::shell
