// One file descriptor on the loop: reading, and waiting for room or for a hang-up.
// Must not know what the bytes mean or who is at the other end.
#pragma once

#include <asio/posix/basic_stream_descriptor.hpp>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/async.h"
#include "base/fd.h"

namespace rex {

/// Owns a descriptor, makes its open file description non-blocking, and waits for it. Things epoll refuses (regular
/// files, /dev/null) are always ready and never hang up. At most one reader, one writer and one hung_up() at a time.
class Descriptor {
 public:
  Descriptor(Executor executor, Fd fd);

  /// Up to `buffer.size()` bytes; 0 at end of input or once closed. Throws OsError.
  Task<std::size_t> read_some(std::span<char> buffer);
  /// Writes what fits now and returns how many bytes that was; 0 means full. Throws OsError (EPIPE, ECONNRESET, ...).
  std::size_t try_write(std::string_view data);
  /// Returns when try_write is worth another try, which an error is too, or once closed.
  Task<> writable();
  /// True when the other end can no longer read what is written here; false once closed, or where that cannot happen.
  Task<bool> hung_up();
  /// Ends every wait. What is not written is lost.
  void close();

 private:
  asio::posix::basic_stream_descriptor<Executor> fd_;
};

}  // namespace rex
