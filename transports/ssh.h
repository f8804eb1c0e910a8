// A program on another machine as a transport, over SSH: one connection, one channel, one exec request; no terminal,
// no forwarding, no sftp. Must not know JSON, methods or what the program is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "transports/transport.h"

namespace rex::transports {

struct SshTarget {
  std::string user;     // empty: as the user's ssh configuration says
  std::string host;     // a host of that configuration, a name or an address, without brackets
  int port = 0;         // 0: as the configuration says
  std::string command;  // what the login shell there is given
};

/// A question that only the person who wants the connection can answer.
struct SshQuestion {
  std::string kind;  // password, passphrase, otp or hostKey
  std::string text;  // as the far side claims it; of a host key its fingerprint, and "yes" is the answer that takes it
  bool secret = true;
};

/// One attempt, as whoever wants it sees it. All are called on the loop; what they refer to must outlive dial_ssh.
struct SshAttempt {
  /// dns, tcp, kex, host key, auth or channel, and words about it.
  std::function<void(std::string_view phase, std::string_view detail)> phase;
  /// Throws where nobody can be asked or nobody answers; nothing more is asked then, and the attempt goes on without.
  std::function<Task<std::string>(SshQuestion question)> ask;
  Cancel& cancel;
};

struct SshReached {
  std::unique_ptr<Transport> transport;  // null when argv is given
  /// Only the user's own ssh can do what the configuration of this host asks for: this is how it is started. It asks
  /// nobody anything.
  std::vector<std::string> argv;
  std::string took;  // how, in words: configuration, host key, authentication; or why the user's own ssh is needed
  /// Once the stream has ended by itself: how, in words, with the end of what the program wrote to its stderr. May be
  /// empty, may be called at any time and as often as wanted, and outlives the transport.
  std::function<std::string()> last_words;
};

/// Connects, asks and starts the command. Throws InvalidParams for a user or host that cannot be one (before any
/// program is started), HostUnreachable {phase, detail}, HostKeyRejected {fingerprint, detail}, RequestCancelled.
/// Waits for its thread to end before it throws: bounded, though the network may be a black hole.
Task<SshReached> dial_ssh(Executor executor, SshTarget target, SshAttempt attempt);

/// Why every host is left to the user's own ssh; empty where libssh is taken. Loads it.
std::string why_no_libssh();

/// The command line by which the user's own ssh connects the target's command to its stdin and stdout: no terminal, no
/// questions, a connection of its own, whatever the configuration says of RemoteCommand, RequestTTY or LogLevel.
/// Throws InvalidParams.
std::vector<std::string> user_ssh_argv(const SshTarget& target);

}  // namespace rex::transports
