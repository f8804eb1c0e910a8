// The person at the terminal, asked what only they can say: a password, a one-time code, whether a host key is right.
// Must not know why it is asked.
#pragma once

#include <nlohmann/json.hpp>

#include "base/async.h"

namespace rex::cli {

/// Whether there is a terminal to ask at, whatever standard input and output are.
bool has_person();

/// Shows who asks and what, and reads one line, without echo where it is a secret. Params and result are those of
/// `host/prompt`. Throws RequestCancelled when the person gives no answer (Ctrl-D) or the wish to `cancel` comes.
Task<nlohmann::json> ask_person(Executor executor, nlohmann::json params, Cancel& cancel);

}  // namespace rex::cli
