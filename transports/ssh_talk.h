// How the loop and the thread of an SSH connection talk: short messages over a socket of their own. They share no
// memory but the route, which is the thread's until it is joined. Must not know SSH.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace rex::transports {

/// One message. From the thread: phase {phase, detail}, question {kind, text, "secret" or ""}, open {took},
/// own_ssh {why}, failed {fault, message, name, value, name, value…}. From the loop: answer {text},
/// no_answer {why}.
struct SshMessage {
  enum class Kind : char { phase, question, open, own_ssh, failed, answer, no_answer };
  /// A longer word is cut: what others say has no bound of its own.
  static constexpr std::size_t max_word = 16 * 1024;

  Kind kind;
  std::vector<std::string> words;
};

/// Both ends of a socket that keeps messages whole; close-on-exec and blocking.
struct SshTalk {
  Fd loop;
  Fd thread;
};
SshTalk make_ssh_talk();

/// False when the other end is gone, or takes nothing any more.
bool send_message(int socket, const SshMessage& message);
/// Nullopt when the other end is gone, or, of a socket that does not block, when there is nothing.
std::optional<SshMessage> receive_message(int socket);

/// The thread's side: what it tells and asks. At most `max_questions` a connection; once nobody answers, nothing more
/// is asked.
class Conversation {
 public:
  explicit Conversation(int socket) : socket_(socket) {}

  void phase(std::string_view phase, std::string_view detail) const;
  /// Waits as long as the loop wants to. Nullopt when there is nobody to answer; throws RequestCancelled when the loop
  /// has hung up. The caller wipes the answer.
  std::optional<std::string> ask(std::string_view kind, std::string text, bool secret);
  [[nodiscard]] int socket() const { return socket_; }
  /// Why a question was not answered; empty when all were.
  [[nodiscard]] const std::string& silence() const { return silence_; }

 private:
  static constexpr int max_questions = 5;

  int socket_;
  int asked_ = 0;
  std::string silence_;
};

/// The error as a message, and back. Facts that are no strings are left out: there are none.
SshMessage message_of(const Error& error);
Error error_of(const SshMessage& message);

}  // namespace rex::transports
