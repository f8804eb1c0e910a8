// The thread that opens an SSH connection: it looks up, connects, asks and logs in, says so to the loop through a
// socket, and ends once the command has been started. The loop moves the bytes itself then (ssh_stream.h).
//
// A jump host keeps a thread for as long as it carries: libssh's ready-made connector of channels and descriptors lost
// bulk data whenever it was tried, so the pump is our own.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "transports/libssh.h"
#include "transports/ssh.h"

namespace rex::transports {

/// One SSH connection of a route: those before the last lead through jump hosts.
struct SshLeg {
  SshConfig config;
  std::string name;  // as the user or the configuration wrote it
  std::unique_ptr<Libssh> server;
  std::thread carrier;  // of a jump host: moves what the next leg says
};

/// Legs end in the order that lets each carrier see the end of what it carries.
class SshRoute {
 public:
  SshRoute() = default;
  SshRoute(const SshRoute&) = delete;
  SshRoute& operator=(const SshRoute&) = delete;
  ~SshRoute() { end(); }

  /// Waits a moment for the carriers. Returns what the jump hosts had to say. No other descriptor may hold the last
  /// leg's connection open.
  std::string end();

  std::vector<SshLeg> legs;
};

/// What a thread is started with; all of it is the thread's own.
struct SshJob {
  SshTarget target;
  Fd talk;
};

/// The thread's life: connects, starts the command and says `open`, with the legs in `route`. Whatever fails is said as
/// `failed`; nothing escapes. Ends within a moment of the loop's hanging up.
void run_ssh(const SshJob& job, SshRoute& route) noexcept;

}  // namespace rex::transports
