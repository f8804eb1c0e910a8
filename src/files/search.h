// `file/search`: the files of a tree by their names, and the lines in them by a pattern.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "files/line_search.h"
#include "files/stat.h"

namespace rex::files {

inline constexpr std::size_t max_search_errors = 100;  // `search.errors`

struct SearchOptions {
  std::string path = {};
  std::optional<std::string> pattern = {};
  std::optional<std::string> glob = {};
  std::int64_t max_results = default_search_results;
  std::int64_t context = 0;
};

struct SearchMatch {
  std::string path;               // begins as options.path does
  std::optional<Type> type;       // without a pattern: of what was found
  std::optional<LineMatch> line;  // with one
};

struct SearchError {
  std::string path;
  int error_number;
};

struct SearchResult {
  std::vector<SearchMatch> matches;
  bool truncated = false;           // there was at least one more match
  std::int64_t files = 0;           // that were searched, or that the glob chose
  std::int64_t binary = 0;          // that were not searched: a NUL in their first 8 KiB
  std::int64_t skipped = 0;         // directories that were not entered
  std::int64_t unreadable = 0;      // files and directories
  std::vector<SearchError> errors;  // of the first of these
};

/// In steps, so that the caller can let others run or stop in between.
///
/// Searched are regular files. Symbolic links are not followed, except by `path` itself; hidden files are searched like
/// others. Not entered: .git, .hg, .svn and .jj, which are version control's, and where a search goes down into them
/// the kernel's own file systems (/proc, /sys), whose files do not end or wait. What is gone when its turn comes is
/// passed over. A directory's files come before its subdirectories, each by the bytes of their names, where it has no
/// more than 100,000 entries.
class Search {
 public:
  /// Throws InvalidParams.
  explicit Search(SearchOptions options);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// Goes on for about `time`. True when all is done. Makes its thread a nice one, for good: give it threads that do
  /// such work alone. Throws OsError where `path` itself cannot be searched.
  bool step(Milliseconds time);
  SearchResult take();

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace rex::files
