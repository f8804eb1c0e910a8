#include "files/unpack.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "base/fd.h"
#include "files/copy_inventory.h"
#include "files/copy_stream.h"
#include "files/entry.h"
#include "files/tree.h"

namespace rex::files {

class Unpack::Work {
 public:
  explicit Work(UnpackOptions options) : options_(std::move(options)) {
    check_path("to", options_.path);
    while (options_.path.size() > 1 && options_.path.ends_with('/')) {
      options_.path.pop_back();
    }
    const SplitPath split = split_path(options_.path);
    if (split.name.empty() || split.name == "." || split.name == "..") {
      throw invalid_params("to", "names the root, or ends in a dot name");
    }
    name_ = split.name;
    if (options_.resume) {
      there_.emplace(options_.path);
    }
  }

  ~Work() {
    if (!stays_ || offset_ == 0) {
      drop_temporary();
    } else if (file_ && !temporary_.empty()) {
      ::fchmod(file_.get(), 0600);  // where only its last step failed, too, the next one can go on with it
    }
  }

  bool tell(std::string& stream, std::size_t bytes) { return there_ && there_->tell(stream, bytes); }

  bool write(std::string_view bytes) {
    reader_.feed(bytes);
    const std::int64_t enough = worked_ + max_hole_bytes;
    while (const std::optional<CopyRecord> record = reader_.next()) {
      take(*record);
      if (worked_ >= enough) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] bool touched() const { return touched_; }

  CopyResult finish() {
    result_.hash = one_file_ ? file_hash_ : tree_hash_.finish();
    return result_;
  }

 private:
  struct OpenDirectory {
    std::string path;  // with a slash at its end; "" of the root
    std::uint32_t mode;
    timespec mtime;
  };

  void take(const CopyRecord& record) {
    using Kind = CopyRecord::Kind;
    if (done_ || (file_ && record.kind != Kind::bytes && record.kind != Kind::hole && record.kind != Kind::end)) {
      throw broken("something out of its order");
    }
    switch (record.kind) {
      case Kind::directory: make_directory(record); break;
      case Kind::link: make_link(record); break;
      case Kind::skipped: ++result_.skipped; break;
      case Kind::file: begin_file(record); break;
      case Kind::bytes: add_bytes(record.bytes); break;
      case Kind::hole: add_hole(record.size); break;
      case Kind::end: end_file(record.text); break;
      case Kind::done: end_all(); break;
    }
  }

  static Error broken(const std::string& why) { return {Fault::HostProtocol, "a copy arrived broken: " + why}; }

  [[nodiscard]] std::string full(const std::string& path) const {
    return path.empty() ? options_.path : options_.path + "/" + path;
  }

  /// The directory in which `path` is to be made, and its name there.
  std::pair<int, std::string> place(const std::string& path) {
    leave_directories(path);
    if (!base_) {
      open_base();
    }
    if (path.empty()) {
      return {base_.get(), name_};
    }
    if (!root_) {
      throw broken("something in no directory");
    }
    const std::size_t slash = path.rfind('/');
    const std::string parent = slash == path.npos ? "." : path.substr(0, slash);
    if (parent != parent_path_) {
      parent_ = open_below(root_.get(), parent);
      parent_path_ = parent_ ? parent : "";
    }
    if (!parent_) {
      throw os_error("cannot write in", errno, full(parent));
    }
    return {parent_.get(), path.substr(slash + 1)};
  }

  void open_base() {
    const std::string directory = split_path(options_.path).directory;
    struct ::stat status{};
    const bool missing = ::stat(directory.c_str(), &status) != 0 && errno == ENOENT;
    make_parents(options_.path);
    touched_ = missing;
    base_.reset(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!base_) {
      throw os_error("cannot open the directory of", errno, options_.path);
    }
    if (!options_.overwrite && !options_.resume &&
        ::fstatat(base_.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      throw os_error("cannot copy to", EEXIST, options_.path);
    }
  }

  void make_directory(const CopyRecord& record) {
    const auto [parent, name] = place(record.path);
    if (::mkdirat(parent, name.c_str(), 0700) != 0) {
      const int error = errno;
      struct ::stat status{};
      const bool there = ::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
      if (error != EEXIST || !(options_.overwrite || options_.resume) || !there || !S_ISDIR(status.st_mode)) {
        throw os_error("cannot make the directory", error == EEXIST && there ? ENOTDIR : error, full(record.path));
      }
    } else {
      touched_ = true;
    }
    if (record.path.empty()) {
      root_.reset(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!root_) {
        throw os_error("cannot open", errno, options_.path);
      }
    }
    directories_.push_back({record.path.empty() ? "" : record.path + "/", record.mode & 01777, record.mtime});
  }

  /// What `next` is not in has all it gets: now it may become read-only, and its time stays.
  void leave_directories(const std::string& next) {
    while (!directories_.empty() && !next.starts_with(directories_.back().path)) {
      finish_directory();
    }
  }

  void finish_directory() {
    const OpenDirectory& directory = directories_.back();
    const std::string path = directory.path.empty() ? "." : directory.path.substr(0, directory.path.size() - 1);
    const Fd fd = open_below(root_.get(), path);
    if (!fd || !set_attributes(fd.get(), directory.mode, directory.mtime, touched_)) {
      throw os_error("cannot set the attributes of", errno, full(path == "." ? "" : path));
    }
    directories_.pop_back();
  }

  void make_link(const CopyRecord& record) {
    const auto [parent, name] = place(record.path);
    if (options_.resume && read_link(parent, name) == record.text) {
      return;
    }
    require_replaceable(parent, name, full(record.path));
    const std::string temporary = options_.overwrite ? new_name() : name;
    if (::symlinkat(record.text.c_str(), parent, temporary.c_str()) != 0) {
      throw os_error("cannot make the link", errno, full(record.path));
    }
    touched_ = true;
    const timespec times[2] = {{0, UTIME_OMIT}, record.mtime};
    ::utimensat(parent, temporary.c_str(), times, AT_SYMLINK_NOFOLLOW);
    if (options_.overwrite && ::renameat(parent, temporary.c_str(), parent, name.c_str()) != 0) {
      const int error = errno;
      ::unlinkat(parent, temporary.c_str(), 0);
      throw os_error("cannot replace", error, full(record.path));
    }
  }

  static std::string new_name() { return ".rex-copy-" + random_hex(8); }

  void begin_file(const CopyRecord& record) {
    const auto [parent, name] = place(record.path);
    in_.reset(::fcntl(parent, F_DUPFD_CLOEXEC, 0));
    target_ = name;
    head_ = record;
    offset_ = 0;
    stays_ = false;
    if (there_) {
      there_->brings(record.path);
    }
    require_replaceable(parent, name, full(record.path));
    struct ::stat status{};
    // What is there and was not told may be the same: it is compared when all of it has come.
    if (options_.resume && !options_.overwrite && ::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        (!S_ISREG(status.st_mode) || status.st_size != record.size ||
         (record.offset == 0 && there_->whole(record.path) != nullptr))) {
      throw os_error("cannot copy to", EEXIST, full(record.path));
    }
    record.offset != 0 ? go_on_in_file() : create_file();
  }

  void create_file() {
    hash_ = {};
    if (there_) {
      temporary_ = begun_name(target_);
      file_ = there_->create_begun(head_.path, in_.get(), temporary_);
      stays_ = static_cast<bool>(file_);
    }
    if (!stays_) {
      temporary_ = new_name();
      file_.reset(::openat(in_.get(), temporary_.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600));
    }
    if (!file_ || !in_) {
      const int error = errno;
      temporary_.clear();
      throw os_error("cannot create", error, full(head_.path));
    }
  }

  [[nodiscard]] Fd open_target() const {
    return Fd(::openat(in_.get(), target_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  }

  /// What was told is there: the beginning of it, or all.
  void go_on_in_file() {
    std::optional<CopyInventory::Begun> begun = there_ ? there_->take_begun(head_.path) : std::nullopt;
    const CopyInventory::Whole* const whole = there_ ? there_->whole(head_.path) : nullptr;
    const bool ours = begun && is_our_begun(begun->file.get(), in_.get(), begun_name(target_));
    if (whole != nullptr && whole->status.st_size == head_.offset && head_.offset == head_.size) {
      file_ = open_target();
      if (!whole->is_in(file_.get())) {  // its attributes may be others: another name of it was given them
        throw Error(Fault::Conflict, printable(full(head_.path)) + " was changed meanwhile");
      }
      whole_hash_ = whole->hash;
      if (ours) {
        ::unlinkat(in_.get(), begun_name(target_).c_str(), 0);  // all of it is there: nothing goes on with this
      }
    } else if (ours && begun->size == head_.offset) {
      temporary_ = begun_name(target_);
      stays_ = true;
      file_ = std::move(begun->file);
      hash_ = std::move(begun->hash);
    } else {
      throw broken("a file that begins in its middle");
    }
    offset_ = head_.offset;
    result_.bytes += offset_;
    result_.kept += offset_;
  }

  void require_file() {
    if (!file_ || !whole_hash_.empty()) {
      throw broken("bytes of no file");
    }
    touched_ = touched_ || stays_;
  }

  void add_bytes(std::string_view bytes) {
    require_file();
    hash_.update(bytes);
    if (!write_at(file_.get(), bytes, offset_)) {
      throw os_error("cannot write", errno, full(head_.path));
    }
    const std::int64_t before = std::exchange(offset_, offset_ + static_cast<std::int64_t>(bytes.size()));
    result_.bytes += static_cast<std::int64_t>(bytes.size());
    begin_to_sync(file_.get(), before, offset_);
  }

  void add_hole(std::int64_t size) {
    require_file();
    if (size > head_.size - offset_ || size > max_hole_bytes) {
      throw broken("a hole beyond the end");
    }
    worked_ += size;
    hash_zeros(hash_, size);
    offset_ += size;
    result_.bytes += size;
  }

  void end_file(const std::string& hash) {
    if (!file_) {
      throw broken("the end of no file");
    }
    const bool whole = !whole_hash_.empty();
    const std::string mine = whole ? std::exchange(whole_hash_, {}) : hash_.finish();
    if (mine != hash) {
      drop_temporary();
      throw broken("the bytes of " + printable(full(head_.path)) + " are not those that were sent");
    }
    if (!whole && ::ftruncate(file_.get(), offset_) != 0) {
      throw os_error("cannot write", errno, full(head_.path));
    }
    give_attributes();
    const unsigned flags = options_.overwrite ? 0 : RENAME_NOREPLACE;
    if (!whole && ::renameat2(in_.get(), temporary_.c_str(), in_.get(), target_.c_str(), flags) != 0) {
      const int error = errno;
      Fd there = open_target();
      if (error != EEXIST || !options_.resume || !has_content(there.get(), offset_, mine)) {
        throw os_error("cannot put into place", error, full(head_.path));
      }
      drop_temporary();
      file_ = std::move(there);
      give_attributes();
    }
    touched_ = touched_ || !temporary_.empty();  // which is in its place
    temporary_.clear();
    file_.reset();
    ++result_.files;
    one_file_ = head_.path.empty();
    file_hash_ = mine;
    tree_hash_.update(mine + "  " + head_.path + "\n");
  }

  void give_attributes() {
    bool unseen = false;
    if (!set_attributes(file_.get(), head_.mode & 01777, head_.mtime, temporary_.empty() ? touched_ : unseen)) {
      throw os_error("cannot set the attributes of", errno, full(head_.path));
    }
  }

  void end_all() {
    while (!directories_.empty()) {
      finish_directory();
    }
    if (!base_) {
      throw broken("nothing in it");
    }
    // Once, not for every file.
    if (::syncfs(root_ ? root_.get() : base_.get()) != 0 && errno != ENOSYS) {
      throw os_error("cannot put onto the disk", errno, options_.path);
    }
    done_ = true;
  }

  void drop_temporary() {
    file_.reset();
    if (!temporary_.empty()) {
      ::unlinkat(in_.get(), temporary_.c_str(), 0);
      temporary_.clear();
    }
  }

  UnpackOptions options_;
  std::string name_;
  CopyResult result_;
  CopyReader reader_;
  Fd base_;  // where `to` is made
  Fd root_;  // `to`, where it is a directory
  Fd parent_;
  std::string parent_path_;
  std::vector<OpenDirectory> directories_;  // each in the one before
  bool done_ = false;
  bool touched_ = false;
  std::int64_t worked_ = 0;
  std::optional<CopyInventory> there_;

  CopyRecord head_;
  Fd file_;                 // of the file that comes
  std::string whole_hash_;  // it is there already, and has this
  bool stays_ = false;      // what came of it is for the next copy to go on with
  Fd in_;                   // its directory
  std::string temporary_;
  std::string target_;
  std::int64_t offset_ = 0;
  Sha256 hash_;
  bool one_file_ = false;
  std::string file_hash_;
  Sha256 tree_hash_;
};

Unpack::Unpack(UnpackOptions options) : work_(std::make_unique<Work>(std::move(options))) {}
Unpack::~Unpack() = default;

bool Unpack::tell(std::string& stream, std::size_t bytes) { return work_->tell(stream, bytes); }
bool Unpack::write(std::string_view bytes) { return work_->write(bytes); }
bool Unpack::done() const { return work_->done(); }
bool Unpack::touched() const { return work_->touched(); }
CopyResult Unpack::result() { return work_->finish(); }

}  // namespace rex::files
