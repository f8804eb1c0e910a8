#include "shell/file_watch.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

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

bool same(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

bool after(const timespec& a, const timespec& b) {
  return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

bool FileWatch::Mark::operator==(const Mark& other) const {
  return device == other.device && inode == other.inode && size == other.size && same(modified, other.modified) &&
         same(changed, other.changed);
}

FileWatch::FileWatch(Executor executor, Workers& workers, std::string path, bool changed)
    : executor_(executor),
      workers_(workers),
      path_(std::move(path)),
      changed_(changed),
      inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  clock_gettime(CLOCK_REALTIME_COARSE, &began_);  // the clock of the kernel's file times
  if (inotify_) {
    // A descriptor of its own for the loop: it may be closed while a worker uses the other.
    events_ = std::make_unique<AsyncFd>(executor, Fd(fcntl(inotify_.get(), F_DUPFD_CLOEXEC, 0)));
  }
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
  struct stat info{};
  there_ = stat(path_.c_str(), &info) == 0;
  const std::optional<Mark> now =
      there_ ? std::optional(Mark{info.st_dev, info.st_ino, info.st_size, info.st_mtim, info.st_ctim}) : std::nullopt;
  if (!std::exchange(looked_once_, true)) {
    before_ = now;
    differs_ = now && after(now->changed, began_);  // between the call and this look
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
