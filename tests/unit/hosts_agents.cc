// Which files can be put onto another machine, and by which names they go there.

#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/digest.h"
#include "base/error.h"
#include "hosts/agents.h"

using namespace rex::hosts;

namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "rex-agents-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
    ::setenv("REX_RPC_AGENTS", path.c_str(), 1);
  }
  ~Folder() {
    ::unsetenv("REX_RPC_AGENTS");
    fs::remove_all(path);
  }

  std::string put(const std::string& name, const std::string& content) const {
    std::ofstream(path + "/" + name) << content;
    return path + "/" + name;
  }

  std::string path;
};

/// The least that an ELF file can be: a header, and a segment of this type.
std::string elf(int machine, unsigned segment, const std::string& rest = "") {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = static_cast<Elf64_Half>(machine);
  header.e_phoff = sizeof header;
  header.e_phnum = 1;
  Elf64_Phdr program{};
  program.p_type = segment;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
         std::string(reinterpret_cast<const char*>(&program), sizeof program) + rest;
}

}  // namespace

TEST_CASE("A file is for another machine if it is ELF, of a known machine, and asks for no loader") {
  const Folder folder;
  const auto kind = [&folder](const std::string& content) { return elf_kind(folder.put("file", content)); };
  CHECK(kind(elf(EM_X86_64, PT_LOAD)).arch == "x86_64");
  CHECK(kind(elf(EM_X86_64, PT_LOAD)).is_static);
  CHECK(kind(elf(EM_AARCH64, PT_LOAD)).arch == "aarch64");
  CHECK_FALSE(kind(elf(EM_X86_64, PT_INTERP)).is_static);
  CHECK(kind(elf(EM_RISCV, PT_LOAD)).arch.empty());
  CHECK(kind(elf(EM_X86_64, PT_LOAD).substr(0, 70)).arch.empty());
  CHECK(kind("#!/bin/sh\nexit 0\n" + std::string(100, ' ')).arch.empty());
  CHECK(kind("").arch.empty());
  CHECK(elf_kind(folder.path + "/none").arch.empty());
  CHECK(elf_kind(folder.path).arch.empty());
}

TEST_CASE("Agents are found by architecture, named by their content, and anew when that changes") {
  const Folder folder;
  Agents agents;
  CHECK(agents.find().empty());  // this program is not static
  folder.put("rex-rpc-x86_64", elf(EM_X86_64, PT_LOAD));
  folder.put("rex-rpc-aarch64", elf(EM_X86_64, PT_LOAD));  // is not what its name says
  REQUIRE(agents.find().size() == 1);
  const Agent first = agents.find().at(0);
  CHECK(first.arch == "x86_64");
  CHECK(first.size == static_cast<std::int64_t>(elf(EM_X86_64, PT_LOAD).size()));
  CHECK(first.name.ends_with("-x86_64-" + rex::sha256_of_file(first.path).substr(0, 32)));
  CHECK(is_intact(first.path, first.name));
  folder.put("rex-rpc-x86_64", elf(EM_X86_64, PT_LOAD, "newer"));
  folder.put("rex-rpc-aarch64", elf(EM_AARCH64, PT_LOAD));
  REQUIRE(agents.find().size() == 2);
  CHECK(agents.find().at(0).name != first.name);
  CHECK_FALSE(is_intact(first.path, first.name));
  CHECK(agents.find().at(1).arch == "aarch64");
}

TEST_CASE("A digest is that of SHA-256") {
  rex::Sha256 digest;
  digest.update("a");
  digest.update("bc");
  CHECK(digest.finish() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_THROWS_AS(rex::sha256_of_file("/no/such/file"), rex::Error);
  CHECK(rex::random_hex(16).size() == 32);
  CHECK(rex::random_hex(16) != rex::random_hex(16));
}
