// Values of shell/ as the wire writes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "methods/wire.gen.h"
#include "shell/session_types.h"
#include "shell/terminal.h"

namespace rex::methods {

/// "TERM" for 15; realtime and unknown signals by their number.
std::string signal_name(int number);
/// The number of a signal of the wire.
int signal_number(wire::Signal signal);

shell::ResourceLimits limits_of(const wire::ResourceLimits& limits);

/// Whether bytes go as text: they are UTF-8, and not so full of control characters that JSON's escapes, six bytes each,
/// could outgrow a message. Many bytes go as text only where their escapes, also of line ends and quotes, leave them
/// shorter than base64 is, so that the most that can be asked for fits.
bool travels_as_text(std::string_view bytes);

std::vector<wire::Process> to_wire(const std::vector<shell::Process>& processes);
std::optional<wire::Omitted> to_wire(const std::optional<shell::Omitted>& omitted);
std::optional<wire::Waiting> to_wire(const std::optional<shell::Waiting>& waiting);
wire::SessionState to_wire(shell::SessionState state);
wire::SessionInfo to_wire(const shell::SessionInfo& info);
wire::RunResult to_wire(shell::RunResult result);
/// Without the attachment, which is the connection's.
wire::SessionEventParams to_wire(const shell::SessionEvent& event);
wire::SessionScreenResult to_wire(shell::ScreenView view);

}  // namespace rex::methods
