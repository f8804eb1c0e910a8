// The rex-rpcs that can be put onto another machine: files that need nothing else there. Knows how they are found and
// named here; nothing of the way to a host.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rex::hosts {

struct Agent {
  std::string arch;  // as `uname -m` says it: x86_64, aarch64
  std::string path;
  std::int64_t size = 0;
  std::string name;  // VERSION-ARCH-DIGEST: its directory on a host, so that several stand side by side
};

/// The architecture that `uname -m` means, by the name that agents go by; unchanged where none is known by another.
std::string canonical_arch(std::string_view machine);

/// This machine's, of the same names.
std::string own_arch();

/// What an ELF file is for, or why it is none for another machine.
struct ElfKind {
  std::string arch;        // empty: not ELF, or of a machine that there are no agents for
  bool is_static = false;  // asks for no loader and no libraries
};
ElfKind elf_kind(const std::string& path);

/// Finds agents, and remembers the digests of those it has found.
class Agents {
 public:
  /// `rex-rpc-ARCH` in the folder $REX_RPC_AGENTS or beside this program; else this program, if it is static. The first
  /// of an architecture is taken. Reads each once: a few milliseconds a megabyte.
  std::vector<Agent> find();
  /// Where `find` looks, for a message that says that nothing was found.
  static std::string places();

 private:
  struct Seen {
    std::int64_t size;
    std::int64_t changed;  // nanoseconds
    std::string digest;
  };
  void add(const std::string& arch, const std::string& path, std::vector<Agent>& to);

  std::map<std::string, Seen> seen_;
};

/// The name of an agent whose content has this SHA-256.
std::string agent_name(std::string_view arch, std::string_view digest);

/// Whether the file at `path` has the content that `name` is for. Throws OsError.
bool is_intact(const std::string& path, std::string_view name);

/// Gives a pushed file, this very program, its final place DIRECTORY/rex-rpc, at once and as a whole, if its content is
/// what `name` is for; and removes what pushes that broke off have left beside it. Throws Error that says why not.
void adopt(const std::string& name, const std::string& directory);

/// Removes the directory that this very program was put into, with every version in it; what runs goes on. Throws
/// NotPermitted where the program stands anywhere else.
void remove_agents();

}  // namespace rex::hosts
