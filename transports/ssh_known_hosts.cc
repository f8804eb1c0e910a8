#include "transports/ssh_known_hosts.h"

#include <fcntl.h>
#include <nettle/hmac.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <functional>

#include "base/digest.h"
#include "base/encoding.h"
#include "base/error.h"
#include "base/fd.h"

namespace rex::transports {
namespace {

/// What the files say of a key, from the weakest to the strongest.
enum class Verdict { unknown, other_kind, changed, known, revoked };

struct Found {
  Verdict verdict = Verdict::unknown;
  std::string fingerprint;  // of the key that was found
  std::string where;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// As known_hosts has it: the port is told unless it is the usual one.
std::string name_of(const SshConfig& config) {
  const std::string name = lower(config.key_name);
  return config.port == 22 || config.alias ? name : "[" + name + "]:" + std::to_string(config.port);
}

using Visit = std::function<void(const std::string& line, const std::string& where)>;

void each_line(const SshConfig& config, const Visit& visit) {
  std::vector<std::string> files = config.known_hosts;
  files.insert(files.end(), config.global_known_hosts.begin(), config.global_known_hosts.end());
  for (const std::string& path : files) {
    std::ifstream file(path);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      std::replace(line.begin(), line.end(), '\t', ' ');
      line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
      if (!line.empty() && line[0] != '#') {
        visit(line, path + ":" + std::to_string(number));
      }
    }
  }
}

Found look_up(const SshConfig& config, const std::string& name, const SshPublicKey& key) {
  Found best;
  each_line(config, [&](const std::string& line, const std::string& where) {
    const bool revokes = line.starts_with("@revoked ");
    const auto known = line[0] == '@' && !revokes ? std::nullopt : known_host_in(line, name);
    if (!known) {
      return;
    }
    const bool same = known->base64 == key.base64;
    const Verdict verdict = revokes ? (same ? Verdict::revoked : Verdict::unknown)
                            : same  ? Verdict::known
                                    : (known->type == key.type ? Verdict::changed : Verdict::other_kind);
    if (verdict > best.verdict) {
      best = {verdict, known->fingerprint, where};
    }
  });
  return best;
}

/// As sshd(8) has it: the name, keyed with random bytes, in HMAC-SHA1.
std::string hashed_name(const std::string& name) {
  const std::string salt = random_bytes(20);
  const auto bytes_of = [](const std::string& text) { return reinterpret_cast<const std::uint8_t*>(text.data()); };
  hmac_sha1_ctx hmac;
  hmac_sha1_set_key(&hmac, salt.size(), bytes_of(salt));
  hmac_sha1_update(&hmac, name.size(), bytes_of(name));
  std::array<std::uint8_t, SHA1_DIGEST_SIZE> hash{};
  hmac_sha1_digest(&hmac, hash.size(), hash.data());
  return "|1|" + to_base64(salt) + "|" + to_base64({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

/// Appends a line; makes the file (0600) and its directory (0700). Throws OsError.
void add(const std::string& path, const std::string& line) {
  ::mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);
  const Fd file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!file) {
    throw os_error("cannot open", errno, path);
  }
  char last = '\n';
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size > 0 && ::pread(file.get(), &last, 1, size - 1) != 1) {
    throw os_error("cannot read", errno, path);
  }
  write_all(file.get(), last == '\n' ? line : "\n" + line, "a known_hosts file");
}

Error rejected(const SshPublicKey& key, const std::string& detail) {
  return Error(Fault::HostKeyRejected, "host key: " + detail)
      .with("fingerprint", key.fingerprint)
      .with("detail", detail)
      .with("phase", "host key");
}

}  // namespace

std::string certificate_authority_of(const SshConfig& config) {
  std::string found;
  each_line(config, [&](const std::string& line, const std::string& where) {
    if (found.empty() && line.starts_with("@cert-authority ") && known_host_in(line, name_of(config))) {
      found = where;
    }
  });
  return found;
}

void check_host_key(const SshConfig& config, const SshPublicKey& key, Conversation& person) {
  const std::string name = name_of(config);
  Found found = look_up(config, name, key);
  if (found.verdict == Verdict::unknown && name != lower(config.key_name)) {
    // As ssh does: a key known for the host at its usual port is known for its others.
    const Found usual = look_up(config, lower(config.key_name), key);
    if (usual.verdict == Verdict::known || usual.verdict == Verdict::revoked) {
      found = usual;
    }
  }
  const std::string is = "the key of " + printable(name) + " is " + key.fingerprint + " (" + key.type + ")";
  switch (found.verdict) {
    case Verdict::known: return;
    case Verdict::revoked: throw rejected(key, is + ", which was revoked (" + found.where + ")");
    case Verdict::changed:
      throw rejected(key, is + ", but it is known by another, " + found.fingerprint + " (" + found.where +
                              "): somebody may be in between, or the host was made anew");
    case Verdict::unknown:
    case Verdict::other_kind: break;
  }
  const std::string unknown =
      is + ", which is not known" + (found.verdict == Verdict::other_kind ? "; the known one is of another kind" : "");
  if (!config.ask_for_unknown) {
    throw rejected(key, unknown + ", and StrictHostKeyChecking is yes");
  }
  const auto answer = person.ask("hostKey", unknown + ". Connect, and know it from now on?", false);
  if (!answer) {
    throw rejected(key, unknown + ", and nobody said that it is the right one: " + person.silence());
  }
  if (lower(*answer) != "yes" && *answer != key.fingerprint) {
    throw rejected(key, unknown + ", and the answer was not yes");
  }
  if (!config.known_hosts.empty() && config.known_hosts[0] != "/dev/null") {
    add(config.known_hosts[0],
        (config.hash_known_hosts ? hashed_name(name) : name) + " " + key.type + " " + key.base64 + "\n");
  }
}

}  // namespace rex::transports
