// Bytes that have come and wait to be read, of a stream (streams.h) or a pipe (memory_pipe.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rex::relay {

/// First in, first out. They may be a secret: what has been read leaves no copy. Knows no bound, its owner does.
class Inbox {
 public:
  Inbox() = default;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox();

  [[nodiscard]] std::size_t size() const { return bytes_.size() - taken_; }
  [[nodiscard]] bool empty() const { return size() == 0; }
  void append(std::string_view bytes);
  /// Moves the first of them, as many as there are and fit. How many that were.
  std::size_t take(std::span<char> into);

 private:
  void make_room(std::size_t bytes);

  std::string bytes_;  // those before `taken_` have been read
  std::size_t taken_ = 0;
};

}  // namespace rex::relay
