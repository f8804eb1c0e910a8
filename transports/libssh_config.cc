// The one reading of ~/.ssh/config that is libssh's own (libssh.h).
#include <cstdlib>
#include <memory>

#include "transports/libssh.h"
#include "transports/libssh_calls.h"

namespace rex::transports {

SshConfig read_config_with_libssh(const std::string& user, const std::string& host, int port) {
  const std::unique_ptr<ssh_session_struct, decltype(libssh().ssh_free)> session(libssh().ssh_new(), libssh().ssh_free);
  libssh().ssh_options_set(session.get(), SSH_OPTIONS_HOST, host.c_str());
  libssh().ssh_options_parse_config(session.get(), nullptr);
  const auto value_of = [&](ssh_options_e option) {
    char* value = nullptr;
    return libssh().ssh_options_get(session.get(), option, &value) == SSH_OK ? taken(value) : "";
  };
  SshConfig config;
  config.source = "libssh's reading of ~/.ssh/config, as there is no ssh to ask";
  config.hostname = config.key_name = value_of(SSH_OPTIONS_HOST);
  config.user = user.empty() ? value_of(SSH_OPTIONS_USER) : user;
  unsigned int configured = 22;
  libssh().ssh_options_get_port(session.get(), &configured);
  config.port = port != 0 ? port : static_cast<int>(configured);
  if (const std::string file = value_of(SSH_OPTIONS_IDENTITY); !file.empty() && !file.starts_with('%')) {
    config.identity_files.push_back(expand_home(file));  // it tells the first alone
  }
  for (const char* const file : {"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"}) {
    config.identity_files.push_back(expand_home(file));
  }
  const char* const agent = std::getenv("SSH_AUTH_SOCK");
  config.agent = agent == nullptr ? "" : agent;
  config.known_hosts = {expand_home("~/.ssh/known_hosts")};
  config.global_known_hosts = {"/etc/ssh/ssh_known_hosts"};
  if (!value_of(SSH_OPTIONS_PROXYCOMMAND).empty()) {
    config.own_ssh = "a proxy";
  }
  return config;
}

}  // namespace rex::transports
