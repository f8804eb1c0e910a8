#include "shell/file_watch.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

namespace rex::shell {
namespace {

// Looks without an event: what changes on another machine's side of a mount, or behind a symbolic link on the way,
// comes without one; and a user has few inotify instances (128).
constexpr Milliseconds safety_look{1000};
constexpr Milliseconds blind_look{100};

constexpr std::uint32_t file_events = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF;
constexpr std::uint32_t folder_events = IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

FileWatch::Mark FileWatch::mark_of(const struct statx& info) {
  return {{info.stx_dev_major, info.stx_dev_minor},
          info.stx_ino,
          info.stx_size,
          {info.stx_mtime.tv_sec, info.stx_mtime.tv_nsec},
          {info.stx_ctime.tv_sec, info.stx_ctime.tv_nsec}};
}

FileWatch::FileWatch(Executor executor, Workers& workers, std::string path, bool changed)
    : executor_(executor),
      workers_(workers),
      path_(std::move(path)),
      changed_(changed),
      inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  clock_gettime(CLOCK_REALTIME, &began_);
  beginning_known_ = note_beginning();
  if (inotify_) {
    // A descriptor of its own for the loop: it may be closed while a worker uses the other.
    events_ = std::make_unique<AsyncFd>(executor, Fd(fcntl(inotify_.get(), F_DUPFD_CLOEXEC, 0)));
  }
}

/// How the file is now, where the kernel knows that without asking a disk or another machine: then not even a change
/// right behind the call is missed, or one right before it met. Not before Linux 5.12.
bool FileWatch::note_beginning() {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_CACHED;
  const Fd file(static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path_.c_str(), &how, sizeof how)));
  struct statx info{};
  if (!file) {
    return errno == ENOENT;
  }
  if (statx(file.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &info) != 0) {
    return false;
  }
  before_ = mark_of(info);
  return true;
}

void FileWatch::start() {
  spawn(executor_, watch(shared_from_this()));
  if (events_) {
    spawn(executor_, pump(shared_from_this()));
  }
}

void FileWatch::stop() {
  stopped_ = true;
  if (events_) {
    events_->close();
  }
  wake_.notify();
}

Task<> FileWatch::watch(std::shared_ptr<FileWatch> self) {
  Waiter waiter(self->executor_);
  waiter.subscribe(self->wake_);
  while (!self->stopped_) {
    std::function<void()> work = [&self] { self->look(); };
    co_await self->workers_.run(std::move(work));
    self->looked_ = true;
    self->met_ = self->there_ && (!self->changed_ || self->differs_ || self->written_);
    self->news_.notify();
    if (self->met_ || self->stopped_) {
      break;
    }
    co_await waiter.until(Clock::now() + (self->events_ ? safety_look : blind_look));
  }
}

Task<> FileWatch::pump(std::shared_ptr<FileWatch> self) {
  while (co_await self->events_->readable()) {
    self->take_events();
    self->wake_.notify();
  }
}

void FileWatch::take_events() {
  alignas(inotify_event) char buffer[4096];
  ssize_t n = 0;
  while ((n = read(events_->fd(), buffer, sizeof buffer)) > 0) {
    for (const char* at = buffer; at < buffer + n;) {
      inotify_event event{};
      std::memcpy(&event, at, sizeof event);
      // A write that changes neither size nor the clock's tick leaves no other trace.
      written_ = written_ || (event.mask & IN_MODIFY) != 0;
      at += sizeof event + event.len;
    }
  }
}

// ---- on a worker

void FileWatch::look() {
  arm();
  struct statx info{};
  there_ = statx(AT_FDCWD, path_.c_str(), 0, STATX_BASIC_STATS, &info) == 0;
  const std::optional<Mark> now = there_ ? std::optional(mark_of(info)) : std::nullopt;
  if (!std::exchange(beginning_known_, true)) {
    before_ = now;
    differs_ = now && std::make_pair(now->changed[0], now->changed[1]) > std::make_pair(began_.tv_sec, began_.tv_nsec);
  } else {
    differs_ = differs_ || now != before_;
  }
}

/// Watches the file, and the nearest folder on its way that exists, until that is the nearest one after it was watched.
void FileWatch::arm() {
  if (!inotify_) {
    return;
  }
  std::string folder = folder_of(path_);
  std::string watched;
  while (watched != folder) {
    if (add_watch(folder, folder_events)) {
      watched = folder;
      folder = folder_of(path_);
      for (struct stat info{}; folder != watched && stat(folder.c_str(), &info) != 0;) {
        folder = folder_of(folder);
      }
    } else if (folder == "/" || folder == ".") {
      break;
    } else {
      folder = folder_of(folder);
    }
  }
  add_watch(path_, file_events);
}

bool FileWatch::add_watch(const std::string& path, std::uint32_t events) {
  return inotify_add_watch(inotify_.get(), path.c_str(), events) >= 0;
}

}  // namespace rex::shell
