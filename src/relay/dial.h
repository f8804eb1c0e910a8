// What the relay asks of whoever can reach a machine: a byte stream to a rex-rpc there. Knows no way of reaching one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "transports/transport.h"

namespace rex::relay {

/// What a host is reached by: a URL, or the argv of a program whose stdin and stdout lead there.
struct Target {
  std::string url;                     // empty when argv is given
  std::vector<std::string> argv;       // empty when url is given
  std::vector<std::string> prepare{};  // a program that is run to its end before argv; may be empty
  std::string token_file{};            // for a TCP listener: where the token is that it wants to be shown
  bool install = true;                 // whether a rex-rpc may be put onto a host that has none that fits
  bool is_made = false;  // the machine is made by the dial, and goes with the link: none is like the first

  bool operator==(const Target&) const = default;
};

/// A question that only the person who wants the connection can answer.
struct Prompt {
  std::string kind;  // password, passphrase, otp or hostKey
  std::string text;  // as the far side claims it
  bool secret = true;
};

/// One attempt to reach a host, as the one who tries sees it. Owned by the relay; lives until the dialer has returned.
class Attempt {
 public:
  virtual ~Attempt() = default;
  /// Told as `host/status` and `$/progress`: prepare, dns, tcp, kex, host key, auth, channel, shell, install or
  /// handshake.
  virtual void phase(std::string_view phase, std::string_view detail) = 0;
  /// Throws HostUnreachable with phase `auth` where nobody can be asked or nobody answers.
  virtual Task<std::string> ask(Prompt prompt) = 0;
  /// The wish that the attempt end early; a dialer that waits subscribes to it.
  virtual Cancel& cancel() = 0;
};

/// An open stream whose other end is a rex-rpc that has not read anything yet.
struct Reached {
  std::unique_ptr<Transport> transport;
  std::string took;   // how, in words: "ssh (libssh), key id_ed25519, config ~/.ssh/config"
  std::string noise;  // what the far side printed before the rex-rpc spoke; bounded by the dialer
  /// How a stream that ended by itself came to its end, in the words of what carried it ("ssh: connection reset");
  /// may be empty, and may be called at any time.
  std::function<std::string()> last_words;
  std::string token{};  // what the rex-rpc wants to be shown; mostly empty
};

/// Throws HostUnreachable {phase, detail}, HostKeyRejected {fingerprint, detail}, or InvalidParams for a target that
/// cannot be one. `hop` is added by the relay.
using Dialer = std::function<Task<Reached>(Target target, Attempt& attempt)>;

}  // namespace rex::relay
