// What the end of a copy that writes has already: files of an earlier one that was cut, and the beginning of that which
// it was at. Internal to files/.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/digest.h"
#include "base/fd.h"

namespace rex::files {

inline constexpr std::size_t max_inventory = 100'000;  // files; of more the rest travels again

/// The beginning of `name` is a file beside it with this name, 0600, that is locked while it is written. "" where the
/// name is too long for one.
std::string begun_name(const std::string& name);
/// Whether `file`, which is open, is such a file of ours that nobody else can write, and `name` in `directory` still
/// names it. Locks it: where another copy is at it, waits until `patience` has passed at most.
bool is_our_begun(int file, int directory, const std::string& name, std::chrono::milliseconds patience = {});
/// Whether `file`, which is open for reading, is a regular file of this size and SHA-256. Reads all of it.
bool has_content(int file, std::int64_t size, const std::string& hash);
/// Sets what differs, and `changed` where anything did. False where that cannot be, with errno.
bool set_attributes(int file, std::uint32_t mode, const timespec& mtime, bool& changed);

class CopyInventory {
 public:
  /// Of a file that was begun: its first `size` bytes, which have this hash.
  struct Begun {
    Fd file;
    std::int64_t size = 0;
    Sha256 hash;
  };
  struct Whole {
    struct ::stat status;
    std::string hash;

    /// Whether that is what `file` has, which is open; where it may have changed, it is read anew.
    [[nodiscard]] bool is_in(int file) const;
  };

  /// `path` is where the copy goes to, a directory or a file or nothing. Touches no file.
  explicit CopyInventory(std::string path) : path_(std::move(path)) {}

  /// Adds what is there to `stream`, about `bytes` or less where that takes long. False once all of it was told. What
  /// cannot be read is not there. Blocks, while another copy is at such a file up to 3 s.
  bool tell(std::string& stream, std::size_t bytes);
  /// By the path that was told; once. Its lock goes with it.
  std::optional<Begun> take_begun(const std::string& path);
  [[nodiscard]] const Whole* whole(const std::string& path) const;
  /// The copy itself brings a file of this path: should it be named like a beginning, it is none.
  void brings(const std::string& path);
  /// The file `path` begins anew: `name` in `directory`, empty, locked and ours. Empty where that cannot be, as on a
  /// file system without locks or modes; then nothing of that name was made.
  Fd create_begun(const std::string& path, int directory, const std::string& name);

 private:
  void look(const std::string& relative);
  std::int64_t read_on(std::string& stream);
  [[nodiscard]] std::string full(const std::string& relative) const;

  std::string path_;
  bool opened_ = false;
  std::filesystem::recursive_directory_iterator next_;
  std::map<std::string, Begun> begun_;
  std::map<std::string, Whole> whole_;
  std::set<std::string> brought_;  // what has no beginning: a file of the source's own has its name

  std::string at_;  // the file that is read, and how far
  bool at_begun_ = false;
  struct ::stat status_{};
  std::int64_t offset_ = 0;
  Begun reading_;
};

}  // namespace rex::files
