// What tells this machine from others, and this start of it from those before. Knows nothing else.
#pragma once

#include <string>

namespace rex {

/// Another one each time the machine is started; empty where the kernel does not say.
std::string boot_id();

/// The same from start to start: of the installation, else the machine's name.
std::string machine_id();

}  // namespace rex
