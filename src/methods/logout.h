// Whether a process of ours outlives its user's last logout. Reads files of systemd-logind; must not change anything.
#pragma once

namespace rex::methods {

/// False where logind kills what its user leaves behind, or where that cannot be known.
bool survives_logout();

}  // namespace rex::methods
