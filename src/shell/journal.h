// The bytes a session wrote, addressed by absolute offset: the newest in memory, older ones in a file without a name.
// Must not know what the bytes mean, who reads them, or the loop: its file lies in the page cache.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "shell/offset.h"

namespace rex::shell {

/// How much memory the rings of many journals may take together.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t bytes) : size_(bytes), left_(bytes) {}

  [[nodiscard]] std::size_t size() const { return size_; }

  /// False, and nothing taken, where there is not so much.
  bool take(std::size_t bytes) {
    if (bytes > left_) {
      return false;
    }
    left_ -= bytes;
    return true;
  }
  void give_back(std::size_t bytes) { left_ += bytes; }
  [[nodiscard]] std::size_t left() const { return left_; }

 private:
  std::size_t size_;
  std::size_t left_;
};

/// Passive; one writer (the session's pump), any number of readers that hold nothing but an offset. It is bounded, and
/// what it has lost it says: everything from `oldest()` to `end()` can be read, nothing else ever is.
class Journal {
 public:
  static constexpr std::size_t kMinCapacity = 4 << 10;
  static constexpr std::size_t kDefaultCapacity = 64 << 20;
  /// Above this, bytes go to the spool file, which is created when the first byte has to.
  static constexpr std::size_t kMaxMemory = 1 << 20;
  static constexpr std::size_t kChunk = 64 << 10;
  /// What a journal may have in memory although its budget is used up.
  static constexpr std::size_t kMinMemory = 4 << 10;

  struct Options {
    std::size_t capacity = kDefaultCapacity;    ///< bytes kept; below kMinCapacity throws InvalidParams
    Offset start = 0;                           ///< the offset of the first byte
    std::string spool_directory = {};           ///< default: $TMPDIR, else /var/tmp
    std::shared_ptr<MemoryBudget> memory = {};  ///< null: no bound but kMaxMemory
  };

  Journal() : Journal(Options{}) {}
  explicit Journal(Options options);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Never fails. When the spool cannot be written, the journal is `degraded()` and keeps what fits into memory.
  void append(std::string_view bytes);

  /// Where the next bytes may be put by read(2): 1 byte to kChunk. What is put there counts from `commit(n)` on;
  /// nothing else of the journal may be used in between, since the oldest bytes may be overwritten.
  [[nodiscard]] std::span<char> writable();
  void commit(std::size_t size);

  [[nodiscard]] Offset oldest() const;
  [[nodiscard]] Offset end() const { return end_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

  /// Copies up to `size` bytes from `offset` on and returns how many: less than `size` only at `end()`; 0 when `offset`
  /// is not within [oldest(), end()), be it that reading the spool has just failed.
  std::size_t read(Offset offset, char* buffer, std::size_t size);

  /// Hands [from, to), in order and in pieces of at most kMaxMemory, to `see` until it returns false; a piece is valid
  /// during the call only. Returns the offset behind the last piece. Stays within [oldest(), end()): the first piece
  /// starts at `oldest()` when `from` is gone, so compare before. `see` must not append.
  Offset visit(Offset from, Offset to, const std::function<bool(std::string_view)>& see);

  /// The errno that cost us the spool file, or 0: from then on only memory is kept and `oldest()` has moved up.
  [[nodiscard]] int degraded() const { return degraded_; }

 private:
  [[nodiscard]] std::size_t used() const { return end_ - memory_from_; }
  [[nodiscard]] bool spooling() const { return capacity_ > most_memory_ && degraded_ == 0; }
  [[nodiscard]] std::size_t batch() const { return ring_.size() / 4; }
  [[nodiscard]] std::string_view in_memory(Offset offset, Offset to) const;
  bool grow();
  void evict();
  bool write_spool(std::string_view bytes);
  std::size_t read_spool(Offset offset, char* buffer, std::size_t size);
  void degrade(int error_number);

  std::size_t capacity_;
  std::size_t most_memory_;  // of the ring: by its bound, or once the budget was used up
  std::shared_ptr<MemoryBudget> memory_;
  std::string spool_directory_;
  std::string ring_;    // a power of two of bytes, 0 to kMaxMemory; byte `o` stands at o % size
  Offset start_;        // nothing below was ever written, or it is lost beyond the bound
  Offset memory_from_;  // [memory_from_, end_) is in ring_, everything below in the spool
  Offset end_;
  Fd spool_;  // circular: byte `o` stands at o % capacity_
  int degraded_ = 0;
};

}  // namespace rex::shell
