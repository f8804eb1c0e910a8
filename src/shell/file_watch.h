// Waiting until a path is there, or is changed: inotify says when to look, and a look says what is so. Knows no
// session.
#pragma once

#include <sys/stat.h>

#include <cstdint>
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
    std::uint32_t device[2];
    std::uint64_t inode;
    std::uint64_t size;
    std::int64_t modified[2];  // seconds, nanoseconds
    std::int64_t changed[2];
    auto operator<=>(const Mark&) const = default;
  };

  static Mark mark_of(const struct statx& info);
  bool note_beginning();
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
  bool beginning_known_ = false;
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
