#include "files/search.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "files/entry.h"
#include "files/glob.h"
#include "files/walk.h"

namespace rex::files {
namespace {

constexpr std::size_t binary_probe = 8 << 10;
constexpr int niceness = 10;
constexpr std::int64_t match_cost = 64;  // of the budget, besides path and text

}  // namespace

class Search::Work {
 public:
  explicit Work(SearchOptions options) : options_(std::move(options)) {
    check_path("path", options_.path);
    if (options_.pattern) {
      pattern_.emplace(*options_.pattern);
      lines_.emplace(*pattern_, options_.context, budget_);
    }
    if (options_.glob) {
      glob_.emplace(*options_.glob);
    }
    budget_ = {options_.max_results, max_result_bytes, false};
    prefix_ = options_.path + (options_.path.ends_with('/') ? "" : "/");
    report_.unreadable = [this](const std::string& path, int error) { note(prefix_ + path, error); };
  }

  bool step(Milliseconds time) {
    if (::getpriority(PRIO_PROCESS, 0) < niceness) {
      ::setpriority(PRIO_PROCESS, 0, niceness);  // on Linux: of this thread alone
    }
    const TimePoint end = Clock::now() + time;
    if (!begun_) {
      begin();
      begun_ = true;
    }
    for (bool first = true; !done_ && (first || Clock::now() < end); first = false) {
      if (file_) {
        go_on_in_file();
      } else if (!walk_ || walk_->done()) {
        done_ = true;
      } else if (const std::optional<Walk::Found> found = walk_->step()) {
        visit(*found);
      }
    }
    return done_;
  }

  SearchResult take() {
    result_.skipped = report_.skipped;
    return std::move(result_);
  }

 private:
  void begin() {
    struct ::stat status{};
    if (::stat(options_.path.c_str(), &status) != 0) {
      throw os_error("cannot search", errno, options_.path);
    }
    if (S_ISDIR(status.st_mode)) {
      walk_.emplace(
          options_.path, [this](const std::string& path) { return !glob_ || glob_->may_match_below(path); }, report_);
      return;
    }
    // A file that is named is searched whatever the glob says.
    OpenFile file = open_regular(AT_FDCWD, options_.path, options_.path);
    if (lines_) {
      take_file(std::move(file.fd), file.status, options_.path);
    } else {
      list(options_.path, Type::file);
    }
  }

  void visit(const Walk::Found& found) {
    if ((lines_ && found.type != Type::file) || (glob_ && !glob_->matches(found.path))) {
      return;
    }
    if (!lines_) {
      list(prefix_ + found.path, found.type);
      return;
    }
    Fd file(::openat(found.directory, found.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct ::stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) {
      if (errno != ENOENT && errno != ELOOP && errno != ENXIO) {  // these: gone, or swapped for no file
        note(prefix_ + found.path, errno);
      }
    } else if (S_ISREG(status.st_mode)) {
      take_file(std::move(file), status, prefix_ + found.path);
    }
  }

  void list(std::string path, Type type) {
    const std::int64_t cost = match_cost + static_cast<std::int64_t>(path.size());
    if (budget_.matches == 0 || budget_.bytes < cost) {
      result_.truncated = done_ = true;
      return;
    }
    --budget_.matches;
    budget_.bytes -= cost;
    ++result_.files;
    result_.matches.push_back({std::move(path), type, {}});
  }

  void take_file(Fd file, const struct ::stat& status, std::string path) {
    file_ = std::move(file);
    path_ = std::move(path);
    size_ = status.st_size;
    read_ = 0;
    lines_->begin(match_cost + static_cast<std::int64_t>(path_.size()));
  }

  /// One read, and what it brings.
  void go_on_in_file() {
    const std::span<char> room = lines_->room();
    ssize_t size = ::read(file_.get(), room.data(), room.size());
    if (size < 0 && errno == EINTR) {
      return;
    }
    if (size < 0) {
      note(path_, errno);
      size = 0;
    }
    if (read_ == 0) {
      const std::size_t probe = std::min(static_cast<std::size_t>(size), binary_probe);
      if (std::memchr(room.data(), '\0', probe) != nullptr) {
        ++result_.binary;
        file_.reset();
        return;
      }
      ++result_.files;
    }
    read_ += size;
    const bool last = size == 0 || read_ == size_;  // files of /proc do not know their size: 0
    lines_->take(static_cast<std::size_t>(size), last);
    if (last || lines_->done()) {
      for (LineMatch& match : lines_->matches()) {
        result_.matches.push_back({path_, std::nullopt, std::move(match)});
      }
      result_.truncated = done_ = budget_.exceeded;
      file_.reset();
    }
  }

  void note(std::string path, int error) {
    ++result_.unreadable;
    if (result_.errors.size() < max_search_errors) {
      result_.errors.push_back({std::move(path), error});
    }
  }

  SearchOptions options_;
  std::string prefix_;  // of what is found, before its path relative to the root
  std::optional<LinePattern> pattern_;
  std::optional<Glob> glob_;
  SearchBudget budget_;
  std::optional<LineSearch> lines_;
  SearchResult result_;
  WalkReport report_;
  std::optional<Walk> walk_;  // none where `path` is a file
  bool begun_ = false;
  bool done_ = false;

  Fd file_;
  std::string path_;  // its path, as it is told
  std::int64_t size_ = 0;
  std::int64_t read_ = 0;
};

Search::Search(SearchOptions options) : work_(std::make_unique<Work>(std::move(options))) {}
Search::~Search() = default;

bool Search::step(Milliseconds time) { return work_->step(time); }

SearchResult Search::take() { return work_->take(); }

}  // namespace rex::files
