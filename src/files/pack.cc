#include "files/pack.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/fd.h"
#include "files/copy_inventory.h"
#include "files/copy_stream.h"
#include "files/entry.h"
#include "files/glob.h"

namespace rex::files {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

/// One directory's names a level; directories are opened anew by their path, so that depth costs no descriptors.
class Pack::Walk {
 public:
  explicit Walk(PackOptions options) : options_(std::move(options)) {
    check_path("path", options_.path);
    for (const std::string& exclude : options_.excludes) {
      excludes_.emplace_back(exclude);
    }
  }

  bool told(std::string_view bytes) {
    teller_.feed(bytes);
    while (const std::optional<CopyRecord> record = teller_.next()) {
      if (record->kind == CopyRecord::Kind::done) {
        return true;
      }
      (record->offset != 0 ? begun_there_ : whole_there_)[record->path] = {record->size, record->text};
      if (begun_there_.size() + whole_there_.size() > max_inventory) {
        throw Error(Fault::HostProtocol, "the other end of a copy tells of too many files");
      }
    }
    return false;
  }

  bool read(std::string& stream, std::size_t bytes) {
    const std::size_t full = stream.size() + bytes;
    if (!started_) {
      begin(stream);
      started_ = true;
    }
    worked_ = 0;
    while (!done_ && stream.size() < full && worked_ < max_hole_bytes) {
      if (file_ && offset_ < resume_) {
        catch_up(stream);
      } else if (file_) {
        go_on_in_file(stream);
      } else if (levels_.empty()) {
        append(stream, {});
        done_ = true;
      } else if (levels_.back().names.empty()) {
        levels_.pop_back();
      } else {
        const std::string path = levels_.back().prefix + levels_.back().names.back();
        levels_.back().names.pop_back();
        visit(stream, path);
      }
    }
    return !done_;
  }

 private:
  struct Level {
    std::string prefix;              // "" or ending in a slash
    std::vector<std::string> names;  // the last one first
  };

  [[nodiscard]] std::string full(const std::string& path) const {
    return path.empty() ? options_.path : options_.path + "/" + path;
  }

  void begin(std::string& stream) {
    struct ::stat status{};
    if (::lstat(options_.path.c_str(), &status) != 0) {
      throw os_error("cannot copy", errno, options_.path);
    }
    if (S_ISDIR(status.st_mode)) {
      if (!options_.recursive) {
        throw os_error("cannot copy without `recursive`", EISDIR, options_.path);
      }
      root_.reset(::open(options_.path.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC));
      if (!root_) {
        throw os_error("cannot copy", errno, options_.path);
      }
    } else {
      if (!S_ISLNK(status.st_mode)) {
        require_regular(status, "cannot copy", options_.path);
      }
      const SplitPath split = split_path(options_.path);
      root_.reset(::open(split.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      name_ = split.name;
    }
    visit(stream, "");
  }

  void visit(std::string& stream, const std::string& path) {
    const int parent = root_.get();
    const std::string name = path.empty() ? (name_.empty() ? "." : name_) : path;
    struct ::stat status{};
    if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT && !path.empty()) {
        return;  // gone since its directory was read
      }
      throw os_error("cannot copy", errno, full(path));
    }
    if (!path.empty() &&
        std::any_of(excludes_.begin(), excludes_.end(), [&](const Glob& g) { return g.matches(path); })) {
      return;
    }
    CopyRecord record{.path = path, .mode = status.st_mode & 01777, .mtime = status.st_mtim};
    if (S_ISDIR(status.st_mode)) {
      record.kind = CopyRecord::Kind::directory;
      enter(path, name);
    } else if (S_ISLNK(status.st_mode)) {
      record.kind = CopyRecord::Kind::link;
      record.text = read_link(parent, name).value_or("");
    } else if (S_ISREG(status.st_mode)) {
      open_file(stream, path, name);
      return;
    } else {
      record.kind = CopyRecord::Kind::skipped;
    }
    append(stream, record);
  }

  void enter(const std::string& path, const std::string& name) {
    Fd fd = open_below(root_.get(), name);
    const std::unique_ptr<DIR, CloseDirectory> directory(fd ? ::fdopendir(fd.get()) : nullptr);
    if (!directory) {
      throw os_error("cannot copy", errno, full(path));
    }
    static_cast<void>(fd.release());
    Level level{path.empty() ? "" : path + "/", {}};
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string child = entry->d_name;
      if (child != "." && child != "..") {
        level.names.push_back(child);
      }
    }
    if (errno != 0) {
      throw os_error("cannot copy", errno, full(path));
    }
    std::sort(level.names.begin(), level.names.end(), std::greater<>());
    levels_.push_back(std::move(level));
  }

  void open_file(std::string& stream, const std::string& path, const std::string& name) {
    OpenFile file = open_regular(root_.get(), name, full(path), O_NOFOLLOW);
    path_ = path;
    size_ = file.status.st_size;
    offset_ = 0;
    hash_.emplace();
    file_ = std::move(file.fd);
    head_ = {.kind = CopyRecord::Kind::file,
             .path = path,
             .mode = file.status.st_mode & 01777,
             .mtime = file.status.st_mtim,
             .size = size_};
    const auto whole = whole_there_.find(path);
    const auto begun = begun_there_.find(path);
    There there;
    if (whole != whole_there_.end() && whole->second.size == size_) {
      there = whole->second;
    } else if (begun != begun_there_.end() && begun->second.size <= size_ && !brings_begun(path)) {
      there = begun->second;
    }
    resume_ = there.size;
    there_hash_ = there.hash;
    if (resume_ == 0) {
      append(stream, head_);
    }
  }

  /// Whether a file of the source's own has the name that the beginning of this one has.
  bool brings_begun(const std::string& path) {
    struct ::stat status{};
    const std::size_t slash = path.rfind('/') + 1;  // 0 where there is none
    const std::string name = path.substr(0, slash) + begun_name(path.substr(slash));
    return !path.empty() && ::fstatat(root_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  }

  /// Of what the other end has already only the hash is wanted, if it is the same; else from the beginning.
  void catch_up(std::string& stream) {
    std::string piece(at_once(resume_ - offset_), '\0');
    piece.resize(read_into(piece));
    hash_->update(piece);
    offset_ += static_cast<std::int64_t>(piece.size());
    worked_ += static_cast<std::int64_t>(piece.size());
    if (!piece.empty() && offset_ < resume_) {
      return;
    }
    if (offset_ < resume_ || hash_->so_far() != there_hash_) {
      offset_ = 0;
      hash_.emplace();
    }
    head_.offset = resume_ = offset_;
    append(stream, head_);
  }

  static std::size_t at_once(std::int64_t most) {
    return static_cast<std::size_t>(std::min<std::int64_t>(most, max_copy_bytes));
  }

  std::size_t read_into(std::span<char> place) {
    ssize_t size = 0;
    do {
      size = ::pread(file_.get(), place.data(), place.size(), offset_);
    } while (size < 0 && errno == EINTR);
    if (size < 0) {
      throw os_error("cannot read", errno, full(path_));
    }
    return static_cast<std::size_t>(size);
  }

  /// What it has at its end now is what the other end gets; a log that grows is copied as long as it was.
  void require_not_shorter() {
    struct ::stat status{};
    if (::fstat(file_.get(), &status) != 0 || status.st_size < size_) {
      throw Error(Fault::Conflict, printable(full(path_)) + " became shorter while it was copied");
    }
  }

  void go_on_in_file(std::string& stream) {
    std::int64_t data = ::lseek(file_.get(), offset_, SEEK_DATA);
    data = data < 0 ? (errno == ENXIO ? std::max(size_, offset_) : offset_)
                    : std::min(data, size_);  // other errors: holes are not known
    if (data > offset_) {
      require_not_shorter();  // where it ends now is no hole
      const std::int64_t size = std::min(data - offset_, max_hole_bytes);
      append(stream, {.kind = CopyRecord::Kind::hole, .size = size});
      hash_zeros(*hash_, size);
      offset_ += size;
      worked_ += size;
      return;
    }
    std::int64_t hole = ::lseek(file_.get(), offset_, SEEK_HOLE);
    hole = hole <= offset_ ? size_ : std::min(hole, size_);
    const auto read = [this](std::span<char> place) { return read_into(place); };
    // What the kernel makes up as it is read, as in /proc, has no size before.
    const std::int64_t most = size_ == 0 ? max_copy_bytes : offset_ < size_ ? hole - offset_ : 0;
    if (const std::string_view piece = append_bytes(stream, at_once(most), read); !piece.empty()) {
      hash_->update(piece);
      offset_ += static_cast<std::int64_t>(piece.size());
    } else {
      require_not_shorter();
      append(stream, {.kind = CopyRecord::Kind::end, .text = hash_->finish()});
      file_.reset();
    }
  }

  struct There {
    std::int64_t size = 0;
    std::string hash;
  };

  PackOptions options_;
  CopyReader teller_;
  std::map<std::string, There> whole_there_;
  std::map<std::string, There> begun_there_;
  std::vector<Glob> excludes_;
  Fd root_;           // the directory, or the one that holds the file
  std::string name_;  // of a file in it
  std::vector<Level> levels_;
  bool started_ = false;
  bool done_ = false;

  std::int64_t worked_ = 0;

  Fd file_;
  CopyRecord head_;
  std::int64_t resume_ = 0;  // the other end has what is before, if it has this hash
  std::string there_hash_;
  std::string path_;
  std::int64_t size_ = 0;
  std::int64_t offset_ = 0;
  std::optional<Sha256> hash_;
};

Pack::Pack(PackOptions options) : walk_(std::make_unique<Walk>(std::move(options))) {}
Pack::~Pack() = default;

bool Pack::told(std::string_view bytes) { return walk_->told(bytes); }
bool Pack::read(std::string& stream, std::size_t bytes) { return walk_->read(stream, bytes); }

bool is_within(const std::string& to, const std::string& from) {
  std::error_code ignored;
  const std::string inner = std::filesystem::weakly_canonical(to, ignored).string() + "/";
  const std::string outer = std::filesystem::weakly_canonical(from, ignored).string() + "/";
  return outer != "/" && inner.starts_with(outer);
}

}  // namespace rex::files
