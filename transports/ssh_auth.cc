#include "transports/ssh_auth.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "base/encoding.h"
#include "base/secret.h"
#include "transports/ssh_agent.h"

namespace rex::transports {
namespace {

using Reply = Libssh::Reply;

constexpr int max_rounds = 20;      // of questions, also such without any
constexpr int max_factors = 5;      // methods that a server wants one after the other
constexpr int max_passphrases = 3;  // tries a key

std::string blob_of(const SshPublicKey& key) { return from_base64(key.base64).value_or(""); }

/// OpenSSH's own format names its cipher first ("none"); the older ones say it in words.
bool is_encrypted(const std::string& file) {
  std::ifstream stream(file);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  const bool own_format = text.find("BEGIN OPENSSH PRIVATE KEY") != std::string::npos;
  const bool in_the_clear = text.find("b3BlbnNzaC1rZXktdjEAAAAABG5vbmU") != std::string::npos;
  return own_format ? !in_the_clear : text.find("ENCRYPTED") != std::string::npos;
}

class Authentication {
 public:
  Authentication(Libssh& server, const SshConfig& config, Conversation& person, int hangup)
      : server_(server), config_(config), person_(person), hangup_(hangup) {}

  std::string run() {
    Reply reply = server_.try_none();
    if (const std::string banner = server_.banner(); !banner.empty()) {
      person_.phase("auth", banner);
    }
    for (int factor = 0; reply != Reply::accepted && factor < max_factors; ++factor) {
      reply = next_factor(server_.methods());
      if (reply == Reply::denied) {
        break;
      }
    }
    if (reply != Reply::accepted) {
      throw unreachable("auth", failure());
    }
    return took_.empty() ? "no authentication" : took_;
  }

 private:
  Reply next_factor(Libssh::Methods offered) {
    Reply reply = Reply::denied;
    if (offered.public_key && config_.public_key) {
      reply = by_key();
    }
    if (reply == Reply::denied && offered.keyboard_interactive && config_.keyboard_interactive) {
      reply = by_questions();
    }
    if (reply == Reply::denied && offered.password && config_.password) {
      reply = by_password();
    }
    return reply;
  }

  void note(const std::string& text) { notes_ += (notes_.empty() ? "" : "; ") + text; }

  Reply passed(Reply reply, const std::string& how) {
    if (reply == Reply::accepted || reply == Reply::partial) {
      took_ += (took_.empty() ? "" : ", ") + how;
    }
    return reply;
  }

  Reply by_key() {
    std::vector<std::string> wanted;
    for (const std::string& file : config_.identity_files) {
      if (const auto key = read_public_key(file)) {
        wanted.push_back(blob_of(*key));
      }
    }
    Reply reply = by_agent(wanted);
    for (const std::string& file : config_.identity_files) {
      if (reply != Reply::denied) {
        break;
      }
      if (::access(file.c_str(), F_OK) == 0) {
        reply = by_file(file);
      }
    }
    return reply;
  }

  Reply by_agent(const std::vector<std::string>& wanted) {
    if (config_.agent.empty() || std::exchange(agent_tried_, true)) {
      return Reply::denied;
    }
    AgentGate gate(config_.agent, wanted, config_.identities_only, hangup_);
    if (!gate.is_open()) {
      note("the agent at " + config_.agent + " does not answer");
      return Reply::denied;
    }
    const Reply reply = server_.try_agent(gate.take_client());
    gate.end();
    tried_ = gate.shown();
    if (reply == Reply::denied && !gate.signer().empty()) {
      note("the agent did not sign with " + gate.signer());
    }
    return passed(reply, "key " + gate.signer() + " of the agent");
  }

  Reply by_file(const std::string& file) {
    const auto key = read_public_key(file);
    if (key) {
      if (std::find(tried_.begin(), tried_.end(), blob_of(*key)) != tried_.end()) {
        return Reply::denied;  // servers count what they are offered
      }
      tried_.push_back(blob_of(*key));
      if (server_.offer(*key) != Reply::accepted) {
        return Reply::denied;
      }
    }
    struct stat status{};
    if (::stat(file.c_str(), &status) == 0 && status.st_uid == ::getuid() && (status.st_mode & 077) != 0) {
      note("the key " + file + " was passed over, as it is open to others");  // as ssh does
      return Reply::denied;
    }
    if (!is_encrypted(file)) {
      if (const auto reply = server_.try_key_file(file, "")) {
        return passed(*reply, "key " + file);
      }
      note("the key " + file + " cannot be read");
      return Reply::denied;
    }
    for (int i = 0; i < max_passphrases; ++i) {
      auto passphrase =
          person_.ask("passphrase", "The passphrase of the key " + file + (i == 0 ? "" : ", once more"), true);
      const Wiper wiper(passphrase ? &*passphrase : nullptr);
      if (!passphrase || passphrase->empty()) {
        break;
      }
      if (const auto reply = server_.try_key_file(file, *passphrase)) {
        return passed(*reply, "key " + file);
      }
    }
    note("the key " + file + " could not be used without its passphrase");
    return Reply::denied;
  }

  Reply by_questions() {
    for (int attempt = 0; attempt < config_.password_prompts; ++attempt) {
      Reply reply = server_.try_keyboard_interactive();
      for (int round = 0; reply == Reply::asks && round < max_rounds; ++round) {
        if (!answer_round()) {
          return Reply::denied;
        }
        reply = server_.try_keyboard_interactive();
      }
      if (reply != Reply::denied) {
        return passed(reply == Reply::asks ? Reply::denied : reply, "keyboard-interactive");
      }
      if (!asked_in_round_) {
        break;  // it refuses without a question
      }
    }
    return Reply::denied;
  }

  bool answer_round() {
    if (const std::string instruction = server_.instruction(); !instruction.empty()) {
      person_.phase("auth", instruction);
    }
    const std::vector<Libssh::Question> questions = server_.questions();
    asked_in_round_ = !questions.empty();
    for (std::size_t i = 0; i < questions.size(); ++i) {
      const bool password = questions[i].text.find("assword") != std::string::npos;
      auto answer = person_.ask(password ? "password" : "otp", printable(questions[i].text, 1024), !questions[i].echo);
      if (!answer) {
        return false;
      }
      server_.answer(i, *answer);
      wipe(*answer);
    }
    return true;
  }

  Reply by_password() {
    for (int attempt = 0; attempt < config_.password_prompts; ++attempt) {
      auto password = person_.ask(
          "password",
          "The password of " + config_.user + " at " + config_.hostname + (attempt == 0 ? "" : ", once more"), true);
      if (!password) {
        break;
      }
      const Reply reply = server_.try_password(*password);
      wipe(*password);
      if (reply != Reply::denied) {
        return passed(reply, "password");
      }
    }
    return Reply::denied;
  }

  [[nodiscard]] std::string failure() const {
    std::string text = server_.words();
    if (!notes_.empty()) {
      text += "; " + notes_;
    }
    if (!person_.silence().empty()) {
      text += "; nobody answered what was asked: " + person_.silence();
    }
    return text;
  }

  Libssh& server_;
  const SshConfig& config_;
  Conversation& person_;
  int hangup_;
  std::vector<std::string> tried_;
  bool agent_tried_ = false;
  bool asked_in_round_ = false;
  std::string took_;
  std::string notes_;
};

}  // namespace

std::string authenticate(Libssh& server, const SshConfig& config, Conversation& person) {
  return Authentication(server, config, person, person.socket()).run();
}

}  // namespace rex::transports
