#include "transports/unix.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "transports/stdio.h"

namespace rex::transports {
namespace {

constexpr int backlog = 64;

/// The address of a name in an open directory: as long as it need be, and nobody's symbolic link on the way.
sockaddr_un address_of(int directory, const std::string& name) {
  const std::string path = "/proc/self/fd/" + std::to_string(directory) + "/" + name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw os_error("cannot use a socket", ENAMETOOLONG, name);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Fd new_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    throw os_error("cannot make a socket", errno);
  }
  return socket;
}

/// Connected, or empty with errno set. A unix socket connects at once or not at all.
Fd connect_at(int directory, const std::string& name) {
  Fd socket = new_socket();
  const sockaddr_un address = address_of(directory, name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    socket.reset();
  }
  return socket;
}

struct Place {
  Fd directory;
  std::string name;
};

Place place_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  Place place{Fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), path.substr(slash + 1)};
  if (!place.directory) {
    throw os_error("cannot open the directory of a socket", errno, folder);
  }
  return place;
}

bool is_own_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

std::unique_ptr<Transport> take_own(Executor executor, Fd client) {
  return is_own_peer(client.get()) ? over_socket(executor, std::move(client)) : nullptr;
}

bool is_own_directory(const char* path) {
  struct stat status{};
  return ::stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

}  // namespace

PrivateDirectory::PrivateDirectory(std::string path) : path_(std::move(path)) {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
    throw os_error("cannot make a directory", errno, path_);
  }
  fd_ = Fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!fd_ || ::fstat(fd_.get(), &status) != 0) {
    throw os_error("cannot open a directory of ours", errno, path_);
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0) {
    throw Error(Fault::NotPermitted,
                printable(path_) + (status.st_uid != ::geteuid() ? " belongs to somebody else"
                                                                 : " is open to others: chmod 700 it, or remove it"));
  }
}

std::vector<std::string> PrivateDirectory::sockets() const {
  std::vector<std::string> names;
  const int copy = ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // with a place of its own
  DIR* const listing = copy < 0 ? nullptr : ::fdopendir(copy);
  if (listing == nullptr) {
    throw os_error("cannot list a directory", errno, path_);
  }
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with('.') && name.size() > socket_suffix.size() && name.ends_with(socket_suffix)) {
      names.emplace_back(name);
    }
  }
  ::closedir(listing);
  std::sort(names.begin(), names.end());
  return names;
}

bool PrivateDirectory::contains(const std::string& name) const {
  return ::faccessat(fd_.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::optional<Claim> Claim::on(const PrivateDirectory& directory, const std::string& name) {
  const std::string file = "." + name + ".lock";
  while (true) {
    Fd lock(::openat(directory.fd(), file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock) {
      throw os_error("cannot open a lock", errno, directory.path() + "/" + file);
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      return std::nullopt;
    }
    struct stat held{};
    struct stat there{};
    if (::fstat(lock.get(), &held) == 0 && ::fstatat(directory.fd(), file.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        held.st_ino == there.st_ino) {
      return Claim(Fd(::fcntl(directory.fd(), F_DUPFD_CLOEXEC, 3)), file, std::move(lock));
    }
    // Whoever had it has removed the file between our open and our lock.
  }
}

Claim::~Claim() {
  if (lock_) {
    ::unlinkat(directory_.get(), file_.c_str(), 0);
  }
}

namespace {

std::string login_directory() { return "/run/user/" + std::to_string(::geteuid()); }

/// $XDG_RUNTIME_DIR where it is a directory of ours, or empty.
std::string given_directory() {
  const char* const given = std::getenv("XDG_RUNTIME_DIR");
  return given != nullptr && given[0] == '/' && is_own_directory(given) ? given : "";
}

std::string own_directory_in_tmp() { return "/tmp/rex-rpc-" + std::to_string(::geteuid()); }

}  // namespace

std::string runtime_directory() {
  if (const std::string given = given_directory(); !given.empty()) {
    return given + "/rex-rpc";
  }
  // Who came in past PAM has no $XDG_RUNTIME_DIR, and means the same directory as who did not.
  if (const std::string usual = login_directory(); is_own_directory(usual.c_str())) {
    return usual + "/rex-rpc";
  }
  return own_directory_in_tmp();
}

std::string lasting_directory() {
  const std::string given = given_directory();
  return given.empty() || given == login_directory() ? own_directory_in_tmp() : given + "/rex-rpc";
}

UnixListener::UnixListener(Executor executor, std::shared_ptr<const PrivateDirectory> directory, std::string name)
    : executor_(executor), directory_(::fcntl(directory->fd(), F_DUPFD_CLOEXEC, 3)), name_(std::move(name)) {
  // systemd-tmpfiles(8) takes old files out of /tmp, sockets too that it does not know as somebody's by their path, as
  // it does not know ours. It spares a directory that is locked.
  ::flock(directory_.get(), LOCK_SH | LOCK_NB);
  // Under a hidden name first: between bind and listen it refuses everybody, as a dead one would.
  const std::string hidden = "." + name_;
  listen_at(hidden);
  if (::renameat(directory_.get(), hidden.c_str(), directory_.get(), name_.c_str()) != 0) {
    const int failed = errno;
    ::unlinkat(directory_.get(), hidden.c_str(), 0);
    throw os_error("cannot name a socket", failed, name_);
  }
}

UnixListener::UnixListener(Executor executor, const std::string& path) : executor_(executor) {
  Place place = place_of(path);
  directory_ = std::move(place.directory);
  name_ = std::move(place.name);
  const std::string lock = name_ + ".lock";
  lock_ = Fd(::openat(directory_.get(), lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock_) {
    throw os_error("cannot open a lock", errno, path + ".lock");
  }
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    throw os_error("cannot listen: somebody does already", EADDRINUSE, path);
  }
  struct stat there{};
  if (::fstatat(directory_.get(), name_.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISSOCK(there.st_mode) || connect_at(directory_.get(), name_)) {
      throw os_error("cannot listen where something else is", EADDRINUSE, path);
    }
    ::unlinkat(directory_.get(), name_.c_str(), 0);
  }
  listen_at(name_);
}

void UnixListener::listen_at(const std::string& name) {
  Fd socket = new_socket();
  const sockaddr_un address = address_of(directory_.get(), name);
  // The mode of the socket itself becomes that of its file, so there is no moment with another one.
  if (::fchmod(socket.get(), 0600) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), backlog) != 0) {
    throw os_error("cannot listen", errno, name);
  }
  socket_ = std::make_unique<AsyncFd>(executor_, std::move(socket));
}

UnixListener::~UnixListener() { remove(); }

void UnixListener::remove() {
  if (socket_ && !std::exchange(removed_, true)) {
    ::unlinkat(directory_.get(), name_.c_str(), 0);
  }
}

Task<std::unique_ptr<Transport>> UnixListener::accept() { return accept_from(executor_, *socket_, take_own); }

void UnixListener::close() {
  remove();
  socket_->close();
}

std::unique_ptr<Transport> dial_or_bury(Executor executor, const PrivateDirectory& directory, const std::string& name) {
  Fd socket = connect_at(directory.fd(), name);
  if (socket) {
    return over_socket(executor, std::move(socket));
  }
  if (errno == ECONNREFUSED) {
    if (const std::optional<Claim> claim = Claim::on(directory, name); claim && !connect_at(directory.fd(), name)) {
      ::unlinkat(directory.fd(), name.c_str(), 0);
    }
    return nullptr;
  }
  if (errno == ENOENT) {
    return nullptr;
  }
  throw os_error("cannot connect", errno, directory.path() + "/" + name);
}

std::unique_ptr<Transport> dial_unix(Executor executor, const std::string& path) {
  const Place place = place_of(path);
  Fd socket = connect_at(place.directory.get(), place.name);
  if (!socket) {
    throw os_error("cannot connect", errno, path);
  }
  return over_socket(executor, std::move(socket));
}

std::unique_ptr<Transport> over_socket(Executor executor, Fd socket) {
  Fd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy) {
    throw os_error("cannot copy a socket", errno);
  }
  return over_descriptors(executor, std::move(socket), std::move(copy));
}

}  // namespace rex::transports
