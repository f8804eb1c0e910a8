#include "transports/ssh_talk.h"

#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "base/secret.h"

namespace rex::transports {
namespace {

constexpr std::size_t max_words = 16;
constexpr std::size_t max_message = max_words * (SshMessage::max_word + 8);

}  // namespace

SshTalk make_ssh_talk() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw os_error("cannot make a socket pair", errno);
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

bool send_message(int socket, const SshMessage& message) {
  std::string bytes(1, static_cast<char>(message.kind));
  const Wiper wiper(&bytes);
  std::size_t size = 1;
  for (const std::string& word : message.words) {
    size += word.size() + 8;
  }
  bytes.reserve(size);  // a string that grows leaves copies of an answer behind
  for (const std::string& word : message.words) {
    const std::string_view kept = std::string_view(word).substr(0, SshMessage::max_word);
    bytes += std::to_string(kept.size());
    bytes += ':';
    bytes += kept;
  }
  ssize_t sent = 0;
  do {
    sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

std::optional<SshMessage> receive_message(int socket) {
  std::string bytes(max_message, '\0');
  const Wiper wiper(&bytes);
  ssize_t got = 0;
  do {
    got = ::recv(socket, bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    return std::nullopt;
  }
  SshMessage message{static_cast<SshMessage::Kind>(bytes[0]), {}};
  std::string_view rest(bytes.data() + 1, static_cast<std::size_t>(got) - 1);
  while (!rest.empty()) {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
    message.words.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return message;
}

void Conversation::phase(std::string_view phase, std::string_view detail) const {
  send_message(socket_, {SshMessage::Kind::phase, {std::string(phase), printable(detail, SshMessage::max_word)}});
}

std::optional<std::string> Conversation::ask(std::string_view kind, std::string text, bool secret) {
  if (silence_.empty() && asked_ == max_questions) {
    silence_ = "more than " + std::to_string(max_questions) + " questions";
  }
  if (!silence_.empty()) {
    return std::nullopt;
  }
  ++asked_;
  send_message(socket_, {SshMessage::Kind::question, {std::string(kind), std::move(text), secret ? "secret" : ""}});
  std::optional<SshMessage> reply = receive_message(socket_);
  if (!reply) {
    throw Error(Fault::RequestCancelled, "the connection is no longer wanted");
  }
  if (reply->kind == SshMessage::Kind::no_answer) {
    silence_ = reply->words.at(0);
    return std::nullopt;
  }
  return in_own_memory(reply->words.at(0));
}

SshMessage message_of(const Error& error) {
  SshMessage message{SshMessage::Kind::failed, {std::to_string(static_cast<int>(error.fault())), error.message()}};
  for (const auto& [name, fact] : error.facts()) {
    if (const auto* text = std::get_if<std::string>(&fact); text != nullptr && message.words.size() + 2 <= max_words) {
      message.words.push_back(name);
      message.words.push_back(*text);
    }
  }
  return message;
}

Error error_of(const SshMessage& message) {
  Error error(static_cast<Fault>(std::stoi(message.words.at(0))), message.words.at(1));
  for (std::size_t at = 2; at + 1 < message.words.size(); at += 2) {
    error = std::move(error).with(message.words[at], message.words[at + 1]);
  }
  return error;
}

}  // namespace rex::transports
