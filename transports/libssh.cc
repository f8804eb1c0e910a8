#include "transports/libssh.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "transports/libssh_calls.h"

namespace rex::transports {
namespace {

// How long a server may take to answer before it counts as gone. Authentication may wait for a person who confirms on
// a telephone.
constexpr Milliseconds key_exchange_patience{15'000};
constexpr Milliseconds authentication_patience{120'000};
constexpr Milliseconds channel_patience{15'000};

constexpr std::size_t max_stderr = 4096;
constexpr std::size_t max_write = 64 * 1024;
constexpr std::size_t step_bytes = 4096;       // that libssh takes off the socket at most
constexpr std::size_t kept_read = 256 * 1024;  // of the room for what is read
// A server that sends more than its window, which libssh lets it: several times what libssh ever offers.
constexpr std::size_t max_available = 16 * 1024 * 1024;

struct KeyFree {
  void operator()(ssh_key key) const { libssh().ssh_key_free(key); }
};
using Key = std::unique_ptr<ssh_key_struct, KeyFree>;

SshPublicKey described(ssh_key key) {
  SshPublicKey described;
  const char* const type = libssh().ssh_key_type_to_char(libssh().ssh_key_type(key));
  const char* const curve = libssh().ssh_pki_key_ecdsa_name(key);  // "ecdsa-sha2-nistp256" says more than "ecdsa"
  described.type =
      std::string_view(type == nullptr ? "" : type).starts_with("ecdsa") && curve != nullptr ? curve : type;
  char* base64 = nullptr;
  if (libssh().ssh_pki_export_pubkey_base64(key, &base64) == SSH_OK) {
    described.base64 = taken(base64);
  }
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (libssh().ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &size) == 0) {
    described.fingerprint = taken(libssh().ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size));
    libssh().ssh_clean_pubkey_hash(&hash);
  }
  return described;
}

}  // namespace

struct Libssh::Handles {
  ssh_session session = nullptr;
  ssh_channel channel = nullptr;
  ssh_event event = nullptr;
  ssh_channel_callbacks_struct callbacks{};
};

std::optional<SshPublicKey> known_host_in(const std::string& line, const std::string& host) {
  std::string rest = line;
  if (rest.starts_with('@')) {
    rest.erase(0, std::min(rest.find(' '), rest.size() - 1) + 1);
  }
  ssh_knownhosts_entry* entry = nullptr;
  if (libssh().ssh_known_hosts_parse_line(host.c_str(), rest.c_str(), &entry) != SSH_OK || entry == nullptr) {
    return std::nullopt;
  }
  SshPublicKey key = described(entry->publickey);
  libssh().ssh_knownhosts_entry_free(entry);
  return key;
}

std::optional<SshPublicKey> read_public_key(const std::string& file) {
  for (const std::string& half : {file + ".pub", file}) {
    ssh_key key = nullptr;
    if (libssh().ssh_pki_import_pubkey_file(half.c_str(), &key) == SSH_OK) {
      return described(Key(key).get());
    }
  }
  return std::nullopt;
}

Libssh::Libssh(const SshConfig& config, Hangup hangup) : hangup_(hangup), handles_(std::make_unique<Handles>()) {
  handles_->session = libssh().ssh_new();
  libssh().ssh_set_blocking(handles_->session, 0);
  set_options(config);
}

Libssh::~Libssh() {
  if (handles_->event != nullptr) {
    libssh().ssh_event_free(handles_->event);
  }
  if (handles_->channel != nullptr) {
    libssh().ssh_channel_close(handles_->channel);
    libssh().ssh_channel_free(handles_->channel);
  }
  libssh().ssh_free(handles_->session);  // closes the socket, which ssh_disconnect would not, as it was given to it
}

std::string Libssh::missing() { return libssh().missing; }

std::string Libssh::version() { return std::string("libssh ") + libssh().ssh_version(0); }

void Libssh::set_options(const SshConfig& config) {
  const auto set = [&](ssh_options_e option, const void* value, const std::string& what) {
    if (libssh().ssh_options_set(handles_->session, option, value) < 0 && cannot_.empty()) {
      cannot_ = what;
    }
  };
  const auto set_list = [&](std::initializer_list<ssh_options_e> options, const std::string& list, const char* what) {
    for (const ssh_options_e option : options) {
      if (!list.empty()) {
        set(option, list.c_str(), std::string(what) + " " + list);
      }
    }
  };
  const bool no = false;
  set(SSH_OPTIONS_PROCESS_CONFIG, &no, "");
  set(SSH_OPTIONS_HOST, config.key_name.c_str(), "the host name " + config.key_name);
  set(SSH_OPTIONS_USER, config.user.c_str(), "the user " + config.user);
  const unsigned int port = config.alias ? 22 : static_cast<unsigned int>(config.port);
  set(SSH_OPTIONS_PORT, &port, "");
  set(SSH_OPTIONS_SSH_DIR, "/", "");  // all its paths are given
  // Only to prefer the kinds of key that are known; the decision is ssh_known_hosts.cc's.
  if (!config.known_hosts.empty()) {
    set(SSH_OPTIONS_KNOWNHOSTS, config.known_hosts[0].c_str(), "");
  }
  if (!config.global_known_hosts.empty()) {
    set(SSH_OPTIONS_GLOBAL_KNOWNHOSTS, config.global_known_hosts[0].c_str(), "");
  }
  set_list({SSH_OPTIONS_CIPHERS_C_S, SSH_OPTIONS_CIPHERS_S_C}, config.ciphers, "ciphers");
  set_list({SSH_OPTIONS_HMAC_C_S, SSH_OPTIONS_HMAC_S_C}, config.macs, "macs");
  set_list({SSH_OPTIONS_KEY_EXCHANGE}, config.key_exchange, "kexalgorithms");
  set_list({SSH_OPTIONS_HOSTKEYS}, config.host_key_algorithms, "hostkeyalgorithms");
  set_list({SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES}, config.public_key_algorithms, "pubkeyacceptedalgorithms");
  set(SSH_OPTIONS_COMPRESSION, config.compression ? "yes" : "no", "compression");
  if (config.rekey_bytes != 0) {
    set(SSH_OPTIONS_REKEY_DATA, &config.rekey_bytes, "");
  }
  if (config.rekey_seconds != 0) {
    set(SSH_OPTIONS_REKEY_TIME, &config.rekey_seconds, "");
  }
}

template <class Step>
int Libssh::finish(const Step& step, int again, std::string_view phase, Milliseconds patience) {
  const TimePoint deadline = Clock::now() + patience;
  for (;;) {
    const int result = step();
    if (result != again) {
      return result;
    }
    if (fd() < 0 || libssh().ssh_is_connected(handles_->session) == 0) {  // it would go on saying "again"
      throw unreachable(phase, words());
    }
    const short events = is_writing() ? POLLIN | POLLOUT : POLLIN;
    if (!hangup_.wait(fd(), events, deadline)) {
      throw unreachable(phase, "no answer for " + std::to_string(patience.count() / 1000) + " s");
    }
  }
}

void Libssh::exchange_keys(Fd wire) {
  const socket_t socket = wire.get();
  libssh().ssh_options_set(handles_->session, SSH_OPTIONS_FD, &socket);
  (void)wire.release();  // libssh closes it
  if (finish([this] { return libssh().ssh_connect(handles_->session); }, SSH_AGAIN, "kex", key_exchange_patience) !=
      SSH_OK) {
    throw unreachable("kex", words());
  }
  ::fcntl(fd(), F_SETFL, ::fcntl(fd(), F_GETFL) | O_NONBLOCK);  // libssh has made it one that blocks
}

SshPublicKey Libssh::host_key() const {
  ssh_key key = nullptr;
  if (libssh().ssh_get_server_publickey(handles_->session, &key) != SSH_OK) {
    throw unreachable("host key", words());
  }
  return described(Key(key).get());
}

template <class Step>
Libssh::Reply Libssh::authenticate(const Step& step) {
  switch (finish(step, SSH_AUTH_AGAIN, "auth", authentication_patience)) {
    case SSH_AUTH_SUCCESS: return Reply::accepted;
    case SSH_AUTH_PARTIAL: return Reply::partial;
    case SSH_AUTH_DENIED: return Reply::denied;
    case SSH_AUTH_INFO: return Reply::asks;
    default: break;
  }
  if (libssh().ssh_is_connected(handles_->session) == 0) {
    throw unreachable("auth", words());
  }
  return Reply::denied;  // this method could not be tried; another may be
}

Libssh::Reply Libssh::try_none() {
  return authenticate([this] { return libssh().ssh_userauth_none(handles_->session, nullptr); });
}

Libssh::Methods Libssh::methods() const {
  const int methods = libssh().ssh_userauth_list(handles_->session, nullptr);
  return {(methods & SSH_AUTH_METHOD_PUBLICKEY) != 0, (methods & SSH_AUTH_METHOD_INTERACTIVE) != 0,
          (methods & SSH_AUTH_METHOD_PASSWORD) != 0};
}

std::string Libssh::banner() const { return taken(libssh().ssh_get_issue_banner(handles_->session)); }

Libssh::Reply Libssh::try_agent(int socket) {
  libssh().ssh_set_agent_socket(handles_->session, socket);
  return authenticate([this] { return libssh().ssh_userauth_agent(handles_->session, nullptr); });
}

Libssh::Reply Libssh::offer(const SshPublicKey& key) {
  ssh_key parsed = nullptr;
  if (libssh().ssh_pki_import_pubkey_base64(key.base64.c_str(), libssh().ssh_key_type_from_name(key.type.c_str()),
                                            &parsed) != SSH_OK) {
    return Reply::denied;
  }
  const Key owned(parsed);
  return authenticate([&] { return libssh().ssh_userauth_try_publickey(handles_->session, nullptr, owned.get()); });
}

std::optional<Libssh::Reply> Libssh::try_key_file(const std::string& file, const std::string& passphrase) {
  ssh_key parsed = nullptr;
  const char* const secret = passphrase.empty() ? nullptr : passphrase.c_str();
  if (libssh().ssh_pki_import_privkey_file(file.c_str(), secret, nullptr, nullptr, &parsed) != SSH_OK) {
    return std::nullopt;
  }
  const Key key(parsed);
  return authenticate([&] { return libssh().ssh_userauth_publickey(handles_->session, nullptr, key.get()); });
}

Libssh::Reply Libssh::try_password(const std::string& password) {
  return authenticate([&] { return libssh().ssh_userauth_password(handles_->session, nullptr, password.c_str()); });
}

Libssh::Reply Libssh::try_keyboard_interactive() {
  return authenticate([this] { return libssh().ssh_userauth_kbdint(handles_->session, nullptr, nullptr); });
}

std::string Libssh::instruction() const {
  const char* const instruction = libssh().ssh_userauth_kbdint_getinstruction(handles_->session);
  return instruction == nullptr ? "" : instruction;
}

std::vector<Libssh::Question> Libssh::questions() const {
  std::vector<Question> questions;
  const int count = libssh().ssh_userauth_kbdint_getnprompts(handles_->session);
  for (int i = 0; i < count; ++i) {
    char echo = 0;
    const char* const text =
        libssh().ssh_userauth_kbdint_getprompt(handles_->session, static_cast<unsigned int>(i), &echo);
    questions.push_back({text == nullptr ? "" : text, echo != 0});
  }
  return questions;
}

void Libssh::answer(std::size_t question, const std::string& answer) {
  libssh().ssh_userauth_kbdint_setanswer(handles_->session, static_cast<unsigned int>(question), answer.c_str());
}

std::string Libssh::words() const { return libssh().ssh_get_error(handles_->session); }

template <class Step>
bool Libssh::step_of_channel(const Step& step) {
  return finish(step, SSH_AGAIN, "channel", channel_patience) == SSH_OK;
}

void Libssh::open_command(const std::string& command,
                          const std::vector<std::pair<std::string, std::string>>& environment) {
  watch_channel();
  const ssh_channel channel = handles_->channel;
  if (!step_of_channel([&] { return libssh().ssh_channel_open_session(channel); })) {
    throw unreachable("channel", words());
  }
  for (const auto& [name, value] : environment) {  // most servers take few of them, which is no failure
    step_of_channel([&] { return libssh().ssh_channel_request_env(channel, name.c_str(), value.c_str()); });
  }
  if (!step_of_channel([&] { return libssh().ssh_channel_request_exec(channel, command.c_str()); })) {
    throw unreachable("channel", words());
  }
}

void Libssh::open_forward(const std::string& host, int port) {
  watch_channel();
  if (!step_of_channel(
          [&] { return libssh().ssh_channel_open_forward(handles_->channel, host.c_str(), port, "127.0.0.1", 0); })) {
    throw unreachable("channel", words());
  }
}

void Libssh::watch_channel() {
  handles_->channel = libssh().ssh_channel_new(handles_->session);
  ssh_channel_callbacks_struct& calls = handles_->callbacks;
  calls.userdata = this;
  calls.channel_data_function = [](ssh_session, ssh_channel, void* data, std::uint32_t size, int is_stderr,
                                   void* user) {
    auto& self = *static_cast<Libssh*>(user);
    if (is_stderr == 0) {
      self.held_ = std::string_view(static_cast<const char*>(data), size);
      return 0;  // it stays with libssh until it is read
    }
    self.stderr_.append(static_cast<const char*>(data), size);
    if (self.stderr_.size() > max_stderr) {
      self.stderr_.erase(0, self.stderr_.size() - max_stderr);
    }
    return static_cast<int>(size);
  };
  calls.channel_eof_function = [](ssh_session, ssh_channel, void* user) { static_cast<Libssh*>(user)->eof_ = true; };
  calls.channel_close_function = [](ssh_session, ssh_channel, void* user) {
    static_cast<Libssh*>(user)->eof_ = static_cast<Libssh*>(user)->closed_ = true;
  };
  calls.channel_exit_status_function = [](ssh_session, ssh_channel, int status, void* user) {
    static_cast<Libssh*>(user)->ending_ = "the command ended with code " + std::to_string(status);
  };
  calls.channel_exit_signal_function = [](ssh_session, ssh_channel, const char* signal, int, const char*, const char*,
                                          void* user) {
    static_cast<Libssh*>(user)->ending_ = std::string("the command was ended by the signal ") + signal;
  };
  ssh_callbacks_init(&calls);
  libssh().ssh_set_channel_callbacks(handles_->channel, &calls);
}

int Libssh::fd() const { return libssh().ssh_get_fd(handles_->session); }

bool Libssh::take_in() {
  if (handles_->event == nullptr) {
    handles_->event = libssh().ssh_event_new();
    libssh().ssh_event_add_session(handles_->event, handles_->session);
  }
  const std::size_t before = held_.size();
  const int result = libssh().ssh_event_dopoll(handles_->event, 0);
  broken_ = broken_ || result == SSH_ERROR || libssh().ssh_is_connected(handles_->session) == 0 ||
            held_.size() > max_available;
  const bool emptied = held_.size() > before && held_.size() - before < step_bytes / 2;
  return result == SSH_OK && !broken_ && !closed_ && !emptied;
}

std::string_view Libssh::read_available() {
  const std::string_view held = std::exchange(held_, {});
  if (held.size() > read_.size() || read_.size() > kept_read) {
    read_ = std::string(held.size(), '\0');
  }
  if (held.empty()) {
    return {};
  }
  const int got = libssh().ssh_channel_read_nonblocking(handles_->channel, read_.data(),
                                                        static_cast<std::uint32_t>(held.size()), 0);
  if (got < 0) {  // it gives out nothing once the connection broke, and yet has it until its channel is freed
    std::ranges::copy(held, read_.begin());
  }
  return {read_.data(), got < 0 ? held.size() : static_cast<std::size_t>(got)};
}

bool Libssh::can_write() const {
  return !broken_ && !is_writing() && libssh().ssh_channel_window_size(handles_->channel) > 0;
}

std::size_t Libssh::write(std::string_view data) {
  if (data.empty() || !can_write()) {
    return 0;
  }
  const std::size_t window = libssh().ssh_channel_window_size(handles_->channel);
  const std::size_t size = std::min({data.size(), window, max_write});
  const int written = libssh().ssh_channel_write(handles_->channel, data.data(), static_cast<std::uint32_t>(size));
  broken_ = broken_ || written == SSH_ERROR;
  return static_cast<std::size_t>(std::max(written, 0));
}

bool Libssh::is_writing() const { return (libssh().ssh_get_status(handles_->session) & SSH_WRITE_PENDING) != 0; }

void Libssh::send_eof() { libssh().ssh_channel_send_eof(handles_->channel); }

std::string Libssh::last_words() const {
  std::string words_ = broken_ && !closed_ ? "the connection broke: " + words() : ending_;
  if (!stderr_.empty()) {
    words_ +=
        (words_.empty() ? "it wrote to its stderr: " : "; it wrote to its stderr: ") + printable(stderr_, max_stderr);
  }
  return words_;
}

}  // namespace rex::transports
