// Which of the files that a shell may read when it starts were in fact opened meanwhile. Knows no shells and no
// sessions: it is told the candidates.
//
// The kernel tells of an open, not of who opened. Another program that opens the same candidate in the same moment is
// taken for the shell; no candidate is ever named that nobody opened.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/fd.h"

namespace rex::shell {

class StartupWatch {
 public:
  /// Begins to watch. A candidate that ends with a slash stands for the files in that directory.
  explicit StartupWatch(const std::vector<std::string>& candidates);

  /// Those opened so far, in order, each once.
  const std::vector<std::string>& opened();

  /// Candidates that are there and that this process may not read.
  [[nodiscard]] const std::vector<std::string>& unreadable() const { return unreadable_; }

  /// Some candidates could not be watched: whether they were opened is not known.
  [[nodiscard]] bool is_blind() const { return blind_; }

 private:
  Fd events_;
  std::map<int, std::string> names_;
  std::vector<std::string> opened_;
  std::vector<std::string> unreadable_;
  bool blind_ = false;
};

}  // namespace rex::shell
