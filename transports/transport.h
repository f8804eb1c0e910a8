// An open byte pipe to one peer. Knows bytes and nothing else: no framing, no JSON, no methods.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/async.h"

namespace rex {

/// Both directions of a stream. Passive: its Connection reads, writes and closes it; it never acts by itself.
/// At most one read_some, one writable and one gone may be pending.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  /// Up to `buffer.size()` bytes; 0 at end of input or once closed. Throws OsError.
  virtual Task<std::size_t> read_some(std::span<char> buffer) = 0;
  /// Writes what fits now, without waiting, and returns how many bytes that was. Throws OsError when the peer is gone.
  virtual std::size_t try_write(std::string_view data) = 0;
  /// Returns when try_write is worth another try, or once closed.
  virtual Task<> writable() = 0;
  /// True when the peer can no longer read what is written; false once closed, or where that can never be known.
  /// The end of input says nothing of the kind: it is a half-close.
  virtual Task<bool> gone() = 0;
  /// Nothing more will be written: the other side reads what was, and then the end of input.
  virtual void end_output() = 0;
  /// Ends every pending wait and both directions.
  virtual void close() = 0;
};

}  // namespace rex
