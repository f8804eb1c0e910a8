// Waiting until a path is there, or is changed: inotify says when to look, and a look says what is so. Knows no
// session.
#pragma once

#include <sys/stat.h>

#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include "base/async.h"
#include "base/fd.h"

namespace rex::shell {

/// Every look is done by a worker, since a mount may hang; meanwhile nobody else waits. A look sets its watches first
/// and asks for the file after, so that nothing falls between the two.
class FileWatch : public std::enable_shared_from_this<FileWatch> {
 public:
  /// `changed`: not until the file was created, written, replaced or touched after now.
  FileWatch(Executor executor, Workers& workers, std::string path, bool changed);

  void start();
  /// Nothing is looked at any more. Whoever made it must call this.
  void stop();

  [[nodiscard]] bool met() const { return met_; }
  /// Whether it has been looked at all.
  [[nodiscard]] bool looked() const { return looked_; }
  /// Fires when either turns true.
  Event& news() { return news_; }

 private:
  /// What tells one state of a file from another.
  struct Mark {
    dev_t device;
    ino_t inode;
    off_t size;
    timespec modified;
    timespec changed;
    bool operator==(const Mark& other) const;
  };

  static Task<> watch(std::shared_ptr<FileWatch> self);
  static Task<> pump(std::shared_ptr<FileWatch> self);
  void look();
  void arm();
  bool add_watch(const std::string& path, std::uint32_t events);
  void take_events();

  Executor executor_;
  Workers& workers_;
  std::string path_;
  bool changed_;
  timespec began_{};

  // Only a worker touches these while it looks, and only the loop in between.
  Fd inotify_;
  std::optional<Mark> before_;
  bool looked_once_ = false;
  bool there_ = false;
  bool differs_ = false;

  std::unique_ptr<AsyncFd> events_;
  bool written_ = false;  // the file that is there was written to since it is watched
  bool looked_ = false;
  bool met_ = false;
  bool stopped_ = false;
  Event wake_;
  Event news_;
};

}  // namespace rex::shell
