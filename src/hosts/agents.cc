#include "hosts/agents.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/fd.h"

namespace rex::hosts {
namespace {

namespace fs = std::filesystem;

// A program is told from a text, and its loader found, by what stands at its beginning.
constexpr std::size_t head_bytes = 4096;

// Of a SHA-256's 64 digits, those that are part of a name.
constexpr std::size_t digest_digits = 32;

// What a push that broke off has left is of nobody's use after this long; a push that still runs is younger.
constexpr std::time_t stale_seconds = 3600;

constexpr std::string_view pushed_prefix = ".new-";

/// Whether the script that installs would choose a directory of this name.
bool is_place(const std::string& name) {
  return name == "rex-rpc" || name == ".rex-rpc" || name.starts_with("rex-rpc-agent-");
}

const std::pair<const char*, int> machines[] = {{"x86_64", EM_X86_64}, {"aarch64", EM_AARCH64}};

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size());
  return n > 0 ? std::string(path.data(), static_cast<std::size_t>(n)) : "";
}

std::string agent_folder() {
  const char* const folder = std::getenv("REX_RPC_AGENTS");
  return folder == nullptr ? "" : folder;
}

}  // namespace

std::string canonical_arch(std::string_view machine) {
  if (machine == "amd64") {
    return "x86_64";
  }
  return std::string(machine == "arm64" ? "aarch64" : machine);
}

std::string own_arch() {
  utsname name{};
  return ::uname(&name) == 0 ? canonical_arch(name.machine) : "";
}

ElfKind elf_kind(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, head_bytes> head{};
  const ssize_t n = file ? ::read(file.get(), head.data(), head.size()) : 0;
  Elf64_Ehdr header{};
  if (n < static_cast<ssize_t>(sizeof header)) {
    return {};
  }
  std::memcpy(&header, head.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return {};
  }
  ElfKind kind{"", true};
  for (const auto& [arch, machine] : machines) {
    if (header.e_machine == machine) {
      kind.arch = arch;
    }
  }
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const std::size_t at = header.e_phoff + i * sizeof segment;
    if (at + sizeof segment > static_cast<std::size_t>(n)) {
      return {};
    }
    std::memcpy(&segment, head.data() + at, sizeof segment);
    kind.is_static = kind.is_static && segment.p_type != PT_INTERP;
  }
  return kind;
}

std::string agent_name(std::string_view arch, std::string_view digest) {
  return REX_RPC_VERSION "-" + std::string(arch) + "-" + std::string(digest.substr(0, digest_digits));
}

std::vector<Agent> Agents::find() {
  std::vector<Agent> found;
  const std::string program = own_program();
  const std::string beside = program.substr(0, program.rfind('/'));
  for (const auto& [arch, machine] : machines) {
    for (const std::string& folder : {agent_folder(), beside}) {
      if (!folder.empty()) {
        add(arch, folder + "/rex-rpc-" + arch, found);
      }
    }
    add(arch, program, found);
  }
  return found;
}

void Agents::add(const std::string& arch, const std::string& path, std::vector<Agent>& to) {
  struct stat status{};
  if ((!to.empty() && to.back().arch == arch) || ::stat(path.c_str(), &status) != 0) {
    return;
  }
  const ElfKind kind = elf_kind(path);
  if (kind.arch != arch || !kind.is_static) {
    return;
  }
  const std::int64_t changed = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
  Seen& seen = seen_[path];
  if (seen.digest.empty() || seen.size != status.st_size || seen.changed != changed) {
    seen = {status.st_size, changed, sha256_of_file(path)};
  }
  to.push_back({arch, path, seen.size, agent_name(arch, seen.digest)});
}

std::string Agents::places() {
  const std::string folder = agent_folder();
  const std::string program = own_program();
  return (folder.empty() ? "" : printable(folder) + " (REX_RPC_AGENTS) or ") +
         printable(program.substr(0, program.rfind('/') + 1));
}

bool is_intact(const std::string& path, std::string_view name) {
  return name.ends_with(sha256_of_file(path).substr(0, digest_digits));
}

void adopt(const std::string& name, const std::string& directory) {
  const std::string pushed = own_program();
  if (!is_intact(pushed, name)) {
    throw Error(Fault::Conflict, "what arrived is not what was sent: its checksum differs");
  }
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    throw os_error("cannot make a directory", errno, directory);
  }
  const std::string place = directory + "/rex-rpc";
  if (::rename(pushed.c_str(), place.c_str()) != 0) {
    throw os_error("cannot rename", errno, place);
  }
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(directory).parent_path(), ignored)) {
    struct stat status{};
    if (entry.path().filename().string().starts_with(pushed_prefix) && ::lstat(entry.path().c_str(), &status) == 0 &&
        status.st_mtime + stale_seconds < std::time(nullptr)) {
      fs::remove(entry.path(), ignored);
    }
  }
}

void remove_agents() {
  const fs::path program = own_program();
  const fs::path version = program.parent_path();
  const fs::path place = version.parent_path();
  if (program.filename() != "rex-rpc" || !version.filename().string().starts_with(REX_RPC_VERSION "-") ||
      !is_place(place.filename())) {
    throw Error(Fault::NotPermitted,
                printable(program.string()) + " was not put there by a rex-rpc; nothing is removed");
  }
  std::error_code error;
  fs::remove_all(place, error);
  if (error) {
    throw os_error("cannot remove", error.value(), place.string());
  }
}

}  // namespace rex::hosts
