// Small files of /proc, read whole with one descriptor. Knows nothing of their content.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace rex::shell {

/// The whole file, however long; empty when it cannot be read.
std::string slurp(const std::string& path);

/// Holds one file's text without any allocation. What is longer than the room is cut.
class ProcFile {
 public:
  /// `/proc/PID/NAME`; the text is empty when it cannot be read, and `error` says why.
  std::string_view read(pid_t pid, const char* name);
  /// `/proc/PID/task/TID/NAME`.
  std::string_view read(pid_t pid, pid_t thread, const char* name);
  /// Of the last read; 0 when it went well.
  [[nodiscard]] int error() const { return error_; }
  /// The file may go on behind the text.
  [[nodiscard]] bool is_cut() const { return size_ == sizeof text_ - 1; }

 private:
  std::string_view take(const char* path);

  int error_ = 0;
  std::size_t size_ = 0;
  char text_[16 * 1024];
};

}  // namespace rex::shell
