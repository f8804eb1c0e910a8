// Stands between libssh and the user's ssh agent: libssh would wait for an agent for ever, and offer every key it has.
// Must not know libssh.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace rex::transports {

/// Shows an agent's keys in another order, or only some of them, and passes signatures on. Has a thread of its own,
/// which ends with `end()`, when libssh hangs up, when the agent does, when it is silent for long, or when the loop
/// hangs up.
class AgentGate {
 public:
  /// `first`: public keys (as the protocol has them) to show first, and if `only_first` alone. `talk`: the socket to
  /// the loop, watched for its end, and told when a hardware key waits to be touched. No gate without an agent: then
  /// `is_open` is false.
  AgentGate(const std::string& path, std::vector<std::string> first, bool only_first, int talk);
  ~AgentGate() { end(); }
  AgentGate(const AgentGate&) = delete;
  AgentGate& operator=(const AgentGate&) = delete;

  [[nodiscard]] bool is_open() const { return thread_.joinable(); }
  /// The end for libssh, which closes it.
  int take_client() { return client_.release(); }
  /// Ends the thread. The rest is to be asked afterwards.
  void end();

  /// The keys that were shown.
  [[nodiscard]] const std::vector<std::string>& shown() const { return shown_; }
  /// What the agent calls the key that signed last; empty when none did.
  [[nodiscard]] const std::string& signer() const { return signer_; }

 private:
  struct Key {
    std::string blob;
    std::string comment;
  };

  void run();
  /// False at the end of the stream, of patience or of the loop's interest.
  bool wait(int fd, int patience_ms) const;
  bool read_packet(int fd, int patience_ms, std::string& packet) const;
  bool write_packet(int fd, const std::string& packet) const;
  std::string chosen(const std::string& answer);
  void note_signature(const std::string& request);

  std::vector<std::string> first_;
  bool only_first_;
  int talk_;
  Fd agent_;
  Fd client_;
  Fd gate_;
  std::vector<Key> keys_;
  std::vector<std::string> shown_;
  std::string signer_;
  std::thread thread_;
};

}  // namespace rex::transports
