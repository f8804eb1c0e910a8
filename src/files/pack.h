// `file/copy`, the end that reads: a tree as a stream of bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rex::files {

struct PackOptions {
  std::string path = {};
  bool recursive = true;                   // else a directory is EISDIR
  std::vector<std::string> excludes = {};  // globs, of paths relative to `path`; a directory with all that is in it
};

/// Of a file goes as much as it has when its turn comes. Symbolic links are copied as links, also `path` itself;
/// hard links as files of their own. Owners, ACLs and other attributes do not travel. Setuid and setgid bits neither.
/// The first file or directory that cannot be read ends it.
class Pack {
 public:
  /// Throws InvalidParams. Touches no file.
  explicit Pack(PackOptions options);
  ~Pack();
  Pack(const Pack&) = delete;
  Pack& operator=(const Pack&) = delete;

  /// What the other end has already, as Unpack::tell() says it, in pieces of any size: of what is the same here only
  /// the hash travels. True once all of it came, which is before the first read. Throws HostProtocol.
  bool told(std::string_view bytes);
  /// Adds about `bytes` to `stream`, more by less than one record, or less where that takes long. False once all of it
  /// was given. Throws OsError.
  bool read(std::string& stream, std::size_t bytes);

 private:
  class Walk;
  std::unique_ptr<Walk> walk_;
};

/// Whether `to`, which need not exist, lies in the directory `from` or is it: a copy would meet what it writes.
bool is_within(const std::string& to, const std::string& from);

}  // namespace rex::files
