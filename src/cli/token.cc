#include "cli/token.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/digest.h"
#include "base/error.h"
#include "files/write.h"
#include "hosts/token.h"
#include "transports/unix.h"

namespace rex::cli {
namespace {

constexpr std::size_t random_token_bytes = 32;

}  // namespace

std::string default_token_file() { return transports::runtime_directory() + "/token"; }

void ensure_token(const std::string& path) {
  if (path == default_token_file()) {
    const transports::PrivateDirectory made_or_refused(transports::runtime_directory());
  }
  struct stat there{};
  if (::lstat(path.c_str(), &there) != 0 && errno == ENOENT) {
    files::WriteOptions token{.path = path, .data = random_hex(random_token_bytes) + "\n", .mode = 0600};
    token.parents = false;
    token.if_absent = true;
    try {
      files::write(token);
    } catch (const Error& error) {
      if (error.fault() != Fault::Conflict) {  // another instance was first
        throw;
      }
    }
  }
  hosts::read_token(path);
}

}  // namespace rex::cli
