#include "base/own_file.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/fd.h"

namespace rex {
namespace {

std::string absolute(const char* path) { return path != nullptr && path[0] == '/' ? path : ""; }

}  // namespace

std::string own_directory(const char* variable, std::string_view below_home) {
  std::string named = absolute(std::getenv(variable));
  if (!named.empty()) {
    return named;
  }
  std::string home = absolute(std::getenv("HOME"));
  const passwd* const user = home.empty() ? ::getpwuid(::getuid()) : nullptr;
  home = user != nullptr ? absolute(user->pw_dir) : home;
  return home.empty() ? "" : home + "/" + std::string(below_home);
}

std::string read_own_file(const std::string& path, std::string_view what, Trust trust, std::size_t max_bytes) {
  const auto refused = [&](std::string_view problem) {
    return Error(Fault::NotPermitted, std::string(what) + " " + printable(path) + " " + std::string(problem));
  };
  const bool is_secret = trust == Trust::secret;
  // Without O_NONBLOCK a FIFO put there would hold us up for ever.
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (is_secret ? O_NOFOLLOW : 0);
  const Fd file(::open(path.c_str(), flags));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) {
    if (is_secret && errno == ELOOP) {
      throw refused("is a symbolic link");
    }
    throw os_error("cannot read " + std::string(what), errno, path);
  }
  if (!S_ISREG(status.st_mode)) {
    throw refused("is no regular file");
  }
  if (status.st_uid != ::geteuid() && (is_secret || status.st_uid != 0)) {
    throw refused("belongs to somebody else");
  }
  if (is_secret && (status.st_mode & 0077) != 0) {
    throw refused("can be used by others: chmod 600 it, and change what is in it if somebody may have seen it");
  }
  if (!is_secret && (status.st_mode & 0022) != 0) {
    throw refused("can be changed by others: chmod go-w it, and look whether it says what you wrote");
  }
  std::string text;
  std::array<char, std::size_t{16} << 10> piece;
  while (text.size() <= max_bytes) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      throw os_error("cannot read " + std::string(what), errno, path);
    }
    if (n == 0) {
      return text;
    }
    text.append(piece.data(), static_cast<std::size_t>(n));
  }
  throw Error(Fault::LimitExceeded,
              std::string(what) + " " + printable(path) + " has more than " + std::to_string(max_bytes) + " bytes");
}

}  // namespace rex
