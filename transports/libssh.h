// libssh as an SSH connection wants it: every call returns, or waits where a hang-up ends the wait.
// Decides nothing: which key, which question and which host is the business of those who call. libssh itself is
// libssh_calls.h's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "transports/ssh_config.h"
#include "transports/ssh_network.h"

namespace rex::transports {

struct SshPublicKey {
  std::string type;         // "ssh-ed25519"
  std::string base64;       // as in a .pub file
  std::string fingerprint;  // "SHA256:…"
};

/// The key of a line of known_hosts that is about `host` (`name` or `[name]:port`), hashed or not; markers taken off.
std::optional<SshPublicKey> known_host_in(const std::string& line, const std::string& host);

/// From a .pub file, or from a private key that has its public half in the clear.
std::optional<SshPublicKey> read_public_key(const std::string& file);

/// The configuration of `host` as libssh itself reads it, for where there is no ssh to ask.
SshConfig read_config_with_libssh(const std::string& user, const std::string& host, int port);

/// One session and its one channel. Used by one thread at a time.
class Libssh {
 public:
  enum class Reply { accepted, partial, denied, asks };
  struct Methods {
    bool public_key, keyboard_interactive, password;
  };
  struct Question {
    std::string text;
    bool echo;
  };

  /// Why nothing of this file can be used; empty when all can.
  static std::string missing();

  /// Only sets options; `cannot()` says which of the configuration libssh has no way to follow.
  Libssh(const SshConfig& config, Hangup hangup);
  /// Tells the other side, without waiting.
  ~Libssh();
  Libssh(const Libssh&) = delete;
  Libssh& operator=(const Libssh&) = delete;

  [[nodiscard]] const std::string& cannot() const { return cannot_; }
  static std::string version();

  // Until the channel is open. All throw HostUnreachable with their phase, and RequestCancelled.

  void exchange_keys(Fd wire);
  [[nodiscard]] SshPublicKey host_key() const;

  Reply try_none();
  [[nodiscard]] Methods methods() const;  // after try_none
  [[nodiscard]] std::string banner() const;
  /// Offers the keys of the agent at the other end of `socket`, which it takes over.
  Reply try_agent(int socket);
  Reply offer(const SshPublicKey& key);
  /// Nullopt when the file cannot be read, or not with this passphrase. An encrypted one is not to be tried without:
  /// libcrypto would ask for it on the terminal.
  std::optional<Reply> try_key_file(const std::string& file, const std::string& passphrase);
  Reply try_password(const std::string& password);
  /// Begins, or goes on once all questions have been answered.
  Reply try_keyboard_interactive();
  [[nodiscard]] std::string instruction() const;
  [[nodiscard]] std::vector<Question> questions() const;
  void answer(std::size_t question, const std::string& answer);
  /// What libssh says of the last refusal.
  [[nodiscard]] std::string words() const;

  void open_command(const std::string& command, const std::vector<std::pair<std::string, std::string>>& environment);
  void open_forward(const std::string& host, int port);

  // Once it is open. None waits, or looks at the hang-up, whose socket may be gone by then.

  [[nodiscard]] int fd() const;
  /// Takes in what has come, a little at a time. False when nothing more is there, or the connection broke; and where
  /// it came to so little that there can hardly be more: whoever waits for the socket is woken at once if there is.
  bool take_in();
  /// How many bytes of the channel's stream can be read now.
  [[nodiscard]] std::size_t available() const { return held_.size(); }
  /// Reads all of them: to take a part would let libssh grow the window as if all were taken.
  /// Valid until the next one.
  std::string_view read_available();
  /// As much as the channel's window and the socket take now.
  std::size_t write(std::string_view data);
  /// Whether write() would take something.
  [[nodiscard]] bool can_write() const;
  /// Whether what was written still waits for the socket.
  [[nodiscard]] bool is_writing() const;
  void send_eof();
  [[nodiscard]] bool broken() const { return broken_; }  // the connection
  [[nodiscard]] bool closed() const { return closed_; }  // the channel
  [[nodiscard]] bool eof() const { return eof_; }        // what can be read is all there will be
  /// How it ended, in words, with the end of what the command wrote to its stderr.
  [[nodiscard]] std::string last_words() const;

 private:
  struct Handles;

  template <class Step>
  int finish(const Step& step, int again, std::string_view phase, Milliseconds patience);
  template <class Step>
  Reply authenticate(const Step& step);
  template <class Step>
  bool step_of_channel(const Step& step);
  void set_options(const SshConfig& config);
  void watch_channel();

  Hangup hangup_;
  std::unique_ptr<Handles> handles_;
  std::string cannot_;
  std::string_view held_;  // by libssh, of the channel's stream
  std::string read_;
  bool broken_ = false;
  bool closed_ = false;
  bool eof_ = false;
  std::string stderr_;
  std::string ending_;
};

}  // namespace rex::transports
