// What the user's ssh configuration says of one host, as the user's own ssh tells it (`ssh -G`), and whether that is
// something libssh can do. Knows no library; opens no connection.
//
// Why ask ssh: its configuration language (Match exec, Canonicalize…, Include, tokens, system-wide defaults) has one
// true reader. libssh's parser knows part of it and passes over the rest in silence; a host would then be reached in
// another way than the user's ssh reaches it. Where no ssh is installed, libssh's parser is what there is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rex::transports {

struct SshConfig {
  std::string source;  // in words: who read the configuration
  std::string user;
  std::string hostname;  // to be resolved and connected to
  std::string key_name;  // under which its host key is known: hostname, or HostKeyAlias
  bool alias = false;    // key_name is one, and stands without a port
  int port = 22;
  std::vector<std::string> jumps;  // [user@]host[:port], nearest first
  int family = 0;                  // AF_INET, AF_INET6, or 0 for either
  std::string bind_address;
  int connect_seconds = 0;  // 0: not said
  bool tcp_keepalive = true;

  std::vector<std::string> identity_files;
  bool identities_only = false;
  std::string agent;  // the path of its socket; empty: none
  bool public_key = true;
  bool keyboard_interactive = true;
  bool password = true;
  int password_prompts = 3;

  std::vector<std::string> known_hosts;         // the user's; new keys go into the first
  std::vector<std::string> global_known_hosts;  // the system's
  bool ask_for_unknown = true;                  // StrictHostKeyChecking is not yes
  bool hash_known_hosts = false;

  // Algorithms as OpenSSH lists them; empty: libssh's own choice.
  std::string ciphers, macs, key_exchange, host_key_algorithms, public_key_algorithms;
  bool compression = false;
  std::uint64_t rekey_bytes = 0;
  std::uint32_t rekey_seconds = 0;
  std::vector<std::pair<std::string, std::string>> environment;  // SetEnv, and what SendEnv sends

  std::string own_ssh;  // why only the user's own ssh can do it; empty when libssh can
};

/// Reads what `ssh -G` printed. Looks at the environment and at which of the files it names exist.
SshConfig read_ssh_config(std::string_view printed);

/// What `ssh -G` is asked with: any of user and port may be unsaid. The host is no option: that was checked.
std::vector<std::string> ssh_config_argv(const std::string& user, const std::string& host, int port);

/// `path` with a leading ~ replaced by the home directory.
std::string expand_home(std::string_view path);

}  // namespace rex::transports
