// `file/copy`, the end that writes: a stream of bytes becomes a tree again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace rex::files {

struct UnpackOptions {
  std::string path = {};
  bool overwrite = false;  // else EEXIST where anything is there already
  bool resume = false;     // but for what is the same
};

struct CopyResult {
  std::int64_t files = 0;
  std::int64_t bytes = 0;    // of their contents, holes included
  std::int64_t kept = 0;     // of these, what was there already
  std::int64_t skipped = 0;  // FIFOs, sockets and devices
  std::string hash;  // SHA-256: of the one file; of a tree, of the lines "HASH  PATH\n" of its files, in its order
};

/// The stream may come from anybody: nothing is written but below `path`, and through no symbolic link there. Each file
/// is its old self or its new one, whose bytes have the hash that the other end read; the tree as a whole is not one
/// step. What is in the way is replaced with `overwrite`, but for a directory by something else or something else by a
/// directory; a directory that is there stays, with what else is in it. Directories above `path` are made.
/// On an error what was written stays, but for the file it was at; with `resume` that too, under another name, for the
/// next one to go on with.
class Unpack {
 public:
  /// Throws InvalidParams. Touches no file.
  explicit Unpack(UnpackOptions options);
  ~Unpack();
  Unpack(const Unpack&) = delete;
  Unpack& operator=(const Unpack&) = delete;

  /// With `resume`, before the first write: adds what is there already to `stream`, about `bytes` or less where that
  /// takes long; false once all of it was told. What cannot be read is not there. Waits for a copy that was cut to let
  /// go of its file, up to 3 s.
  bool tell(std::string& stream, std::size_t bytes);
  /// The next bytes of the stream, in pieces of any size. False where it wants to be called again first, with none:
  /// they mean much work. Throws OsError; HostProtocol for what is no such stream, or where a file's bytes are not
  /// those that were sent.
  bool write(std::string_view bytes);
  /// All of the stream has come, and is on disk.
  [[nodiscard]] bool done() const;
  /// Whether anything was changed there. Where an error leaves no trace of the file it was at, that does not count.
  [[nodiscard]] bool touched() const;
  /// Of what is done; to be asked for once.
  CopyResult result();

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace rex::files
