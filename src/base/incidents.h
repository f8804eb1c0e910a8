// What was a mistake of ours, in a file of this user for whoever looks into it: internal errors by their number, a loop
// that does not turn, and crashes. A process that keeps a session has nobody who reads its standard error.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace rex {

/// `rex-rpc/incidents.log` in $XDG_STATE_HOME, else in ~/.local/state; empty where the user has no home.
std::string incident_file();

/// Appends a line: when, which process of which program, and `what`. One that has grown beyond 1 MiB is begun anew, and
/// the one before kept as `incidents.log.1`. Where there can be no such file, or it is not this user's alone, nothing
/// is noted. Blocks.
void note_incident(std::string_view what);

/// The same from the handler of a signal, without memory from the heap, and a line of where the program is: addresses
/// from its beginning. `who` is the process that this is about.
void note_here(std::string_view what, pid_t who);

/// What is noted names `program` ("rex-rpc 1.0.0 session main"). A crash is noted too, before its signal ends the
/// process: where the program was, and none of its memory. To be called once, before threads.
void note_crashes(std::string_view program);

}  // namespace rex
