#include "transports/ssh_config.h"

#include <fnmatch.h>
#include <pwd.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <utility>

namespace rex::transports {
namespace {

constexpr std::size_t max_environment = 32;

/// Each keyword, in lower case, with its values in their order.
using Dump = std::map<std::string, std::vector<std::string>, std::less<>>;

Dump parse(std::string_view printed) {
  Dump dump;
  while (!printed.empty()) {
    const std::string_view line = printed.substr(0, printed.find('\n'));
    printed.remove_prefix(std::min(line.size() + 1, printed.size()));
    const std::size_t space = line.find(' ');
    std::string keyword(line.substr(0, space));
    std::transform(keyword.begin(), keyword.end(), keyword.begin(), [](unsigned char c) { return std::tolower(c); });
    dump[std::move(keyword)].emplace_back(space == std::string_view::npos ? "" : line.substr(space + 1));
  }
  return dump;
}

/// The value of a keyword that has one; empty for "none" and where nothing is said.
std::string value_of(const Dump& dump, std::string_view keyword) {
  const auto found = dump.find(keyword);
  return found == dump.end() || found->second.front() == "none" ? "" : found->second.front();
}

bool is_on(const Dump& dump, std::string_view keyword) {
  const std::string value = value_of(dump, keyword);
  return value == "yes" || value == "true";
}

template <class Number>
Number number_of(std::string_view text, Number otherwise) {
  Number number{};
  return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc() ? number : otherwise;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (!part.empty()) {
      parts.emplace_back(part);
    }
  }
  return parts;
}

std::string environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string agent_of(const Dump& dump) {
  const auto found = dump.find("identityagent");
  const std::string said = found == dump.end() ? "SSH_AUTH_SOCK" : found->second.front();
  if (said == "none") {
    return "";
  }
  return said == "SSH_AUTH_SOCK" ? environment(said) : said[0] == '$' ? environment(said.substr(1)) : expand_home(said);
}

/// The public half of a key that lives in a token names its kind so.
bool is_of_a_token(const std::string& identity_file) {
  std::ifstream file(identity_file + ".pub");
  std::string kind;
  return (file >> kind) && kind.starts_with("sk-");
}

/// A ticket of Kerberos, without which GSSAPI, on by default in some systems, comes to nothing.
bool has_ticket() {
  const std::string named = environment("KRB5CCNAME");
  return !named.empty() || exists("/tmp/krb5cc_" + std::to_string(::geteuid()));
}

/// Why only the user's own ssh can do what is said; empty when libssh can.
std::string why_own_ssh(const Dump& dump, const SshConfig& config) {
  for (const char* const keyword :
       {"proxycommand", "pkcs11provider", "knownhostscommand", "revokedhostkeys", "bindinterface", "certificatefile"}) {
    if (!value_of(dump, keyword).empty()) {
      return keyword;
    }
  }
  if (is_on(dump, "hostbasedauthentication")) {
    return "hostbasedauthentication";
  }
  if (is_on(dump, "gssapiauthentication") && has_ticket()) {
    return "gssapiauthentication, with a ticket";
  }
  std::vector<std::string> paths = config.identity_files;
  paths.insert(paths.end(), config.known_hosts.begin(), config.known_hosts.end());
  paths.push_back(config.agent);
  for (const std::string& path : paths) {
    if (path.find_first_of("%$") != std::string::npos) {
      return "the path " + path;
    }
  }
  for (const std::string& file : config.identity_files) {
    if (exists(file + "-cert.pub")) {
      return "the certificate " + file + "-cert.pub";
    }
    if (is_of_a_token(file)) {
      return "the hardware key " + file;
    }
  }
  if (!config.public_key && !config.keyboard_interactive && !config.password) {
    return "preferredauthentications " + value_of(dump, "preferredauthentications");
  }
  return "";
}

void read_authentication(const Dump& dump, SshConfig& config) {
  if (const auto files = dump.find("identityfile"); files != dump.end()) {
    for (const std::string& file : files->second) {
      if (file != "none") {
        config.identity_files.push_back(expand_home(file));
      }
    }
  }
  config.identities_only = is_on(dump, "identitiesonly");
  config.agent = agent_of(dump);
  const std::vector<std::string> preferred = split(value_of(dump, "preferredauthentications"), ',');
  const auto wanted = [&](const char* method) {
    return preferred.empty() || std::find(preferred.begin(), preferred.end(), method) != preferred.end();
  };
  const auto allowed = [&](const char* keyword) { return !dump.contains(keyword) || is_on(dump, keyword); };
  config.public_key = wanted("publickey") && value_of(dump, "pubkeyauthentication") != "false" &&
                      value_of(dump, "pubkeyauthentication") != "no";
  config.keyboard_interactive = wanted("keyboard-interactive") && allowed("kbdinteractiveauthentication");
  config.password = wanted("password") && allowed("passwordauthentication");
  config.password_prompts = number_of(value_of(dump, "numberofpasswordprompts"), 3);
}

void read_environment(const Dump& dump, SshConfig& config) {
  const auto keep = [&](std::string_view assignment) {
    const std::size_t equals = assignment.find('=');
    if (equals != std::string_view::npos && config.environment.size() < max_environment) {
      config.environment.emplace_back(assignment.substr(0, equals), assignment.substr(equals + 1));
    }
  };
  if (const auto set = dump.find("setenv"); set != dump.end()) {
    std::for_each(set->second.begin(), set->second.end(), keep);
  }
  if (const auto sent = dump.find("sendenv"); sent != dump.end()) {
    for (const std::string& pattern : sent->second) {
      for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view assignment = *variable;
        const std::string name(assignment.substr(0, assignment.find('=')));
        if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0) {
          keep(assignment);
        }
      }
    }
  }
}

// What ssh takes where nobody says anything: since OpenSSH 6.7, and since 10.
constexpr std::string_view unsaid_ciphers[] = {
    "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr"};

bool computes_aes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#elif defined(__aarch64__)
  return (::getauxval(AT_HWCAP) & (HWCAP_AES | HWCAP_PMULL)) == (HWCAP_AES | HWCAP_PMULL);
#else
  return false;
#endif
}

/// The same ciphers, and first those that this processor computes itself: an sshd spends less than half on them. An
/// order that somebody has chosen stays.
std::string swift_first(std::string ciphers) {
  if (!computes_aes() || std::ranges::find(unsaid_ciphers, ciphers) == std::end(unsaid_ciphers)) {
    return ciphers;
  }
  std::string swift;
  std::string others;
  for (const std::string& cipher : split(ciphers, ',')) {
    (cipher.find("-gcm@") != cipher.npos ? swift : others) += cipher + ",";
  }
  swift += others;
  swift.pop_back();
  return swift;
}

}  // namespace

SshConfig read_ssh_config(std::string_view printed) {
  const Dump dump = parse(printed);
  SshConfig config;
  config.source = "ssh -G";
  config.user = value_of(dump, "user");
  config.hostname = value_of(dump, "hostname");
  config.key_name = value_of(dump, "hostkeyalias");
  config.alias = !config.key_name.empty();
  if (!config.alias) {
    config.key_name = config.hostname;
  }
  config.port = number_of(value_of(dump, "port"), 22);
  config.jumps = split(value_of(dump, "proxyjump"), ',');
  const std::string family = value_of(dump, "addressfamily");
  config.family = family == "inet" ? AF_INET : family == "inet6" ? AF_INET6 : 0;
  config.bind_address = value_of(dump, "bindaddress");
  config.connect_seconds = number_of(value_of(dump, "connecttimeout"), 0);
  config.tcp_keepalive = is_on(dump, "tcpkeepalive");
  read_authentication(dump, config);
  for (const std::string& file : split(value_of(dump, "userknownhostsfile"), ' ')) {
    config.known_hosts.push_back(expand_home(file));
  }
  config.global_known_hosts = split(value_of(dump, "globalknownhostsfile"), ' ');
  config.ask_for_unknown = !is_on(dump, "stricthostkeychecking");
  config.hash_known_hosts = is_on(dump, "hashknownhosts");
  config.ciphers = swift_first(value_of(dump, "ciphers"));
  config.macs = value_of(dump, "macs");
  config.key_exchange = value_of(dump, "kexalgorithms");
  config.host_key_algorithms = value_of(dump, "hostkeyalgorithms");
  config.public_key_algorithms = value_of(dump, "pubkeyacceptedalgorithms");
  config.compression = is_on(dump, "compression");
  if (const std::vector<std::string> rekey = split(value_of(dump, "rekeylimit"), ' '); rekey.size() == 2) {
    config.rekey_bytes = number_of<std::uint64_t>(rekey[0], 0);
    config.rekey_seconds = number_of<std::uint32_t>(rekey[1], 0);
  }
  read_environment(dump, config);
  config.own_ssh = why_own_ssh(dump, config);
  return config;
}

std::vector<std::string> ssh_config_argv(const std::string& user, const std::string& host, int port) {
  std::vector<std::string> argv = {"ssh", "-G", "-T"};
  if (!user.empty()) {
    argv.insert(argv.end(), {"-l", user});
  }
  if (port != 0) {
    argv.insert(argv.end(), {"-p", std::to_string(port)});
  }
  argv.insert(argv.end(), {"--", host});
  return argv;
}

std::string expand_home(std::string_view path) {
  if (path != "~" && !path.starts_with("~/")) {
    return std::string(path);
  }
  // As ssh does: the home of the password file, whatever $HOME says.
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
  const std::string home = found != nullptr ? found->pw_dir : environment("HOME");
  return home + std::string(path.substr(1));
}

}  // namespace rex::transports
