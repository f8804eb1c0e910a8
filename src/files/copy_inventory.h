// What the end of a copy that writes has already: files of an earlier one that was cut, and the beginning of that which
// it was at. Internal to files/.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
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
  };

  /// `path` is where the copy goes to, a directory or a file or nothing. Touches no file.
  explicit CopyInventory(std::string path) : path_(std::move(path)) {}

  /// Adds what is there to `stream`, about `bytes` or less where that takes long. False once all of it was told. What
  /// cannot be read is not there. Blocks, while another copy is at such a file up to 3 s.
  bool tell(std::string& stream, std::size_t bytes);
  /// By the path that was told; once.
  std::optional<Begun> take_begun(const std::string& path);
  [[nodiscard]] const Whole* whole(const std::string& path) const;
  /// Removes what was begun and not taken: nothing goes on with it.
  void remove_rest();

 private:
  void look(const std::string& relative);
  std::int64_t read_on(std::string& stream);
  [[nodiscard]] std::string full(const std::string& relative) const;

  std::string path_;
  bool opened_ = false;
  std::filesystem::recursive_directory_iterator next_;
  std::map<std::string, Begun> begun_;
  std::map<std::string, Whole> whole_;

  std::string at_;  // the file that is read, and how far
  bool at_begun_ = false;
  struct ::stat status_{};
  std::int64_t offset_ = 0;
  Begun reading_;
};

}  // namespace rex::files
