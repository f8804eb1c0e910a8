// Every way there is of reaching a machine, as the one dialer that the relay is given. Must not know JSON or methods,
// nor how programs are started here.
#pragma once

#include "base/async.h"
#include "relay/dial.h"
#include "transports/exec.h"

namespace rex::hosts {

relay::Dialer make_dialer(Executor executor, transports::Spawner spawner);

}  // namespace rex::hosts
