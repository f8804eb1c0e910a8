// A reader's place in a session's output, with the window it may run ahead. Knows no connection: somebody asks for the
// next piece when there is room for it, and passes on what the reader acknowledges.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "shell/session.h"

namespace rex::shell {

inline constexpr std::size_t default_window = 1 << 20;

struct OutputPiece {
  Offset offset = 0;  // of the first byte
  std::string data;
  std::optional<Offset> lost_from;  // bytes from here to `offset` fell out of the journal before they could be read
  bool last = false;
};

/// Passive. No byte comes twice and none is left out unsaid.
class OutputCursor {
 public:
  /// Throws InvalidParams and OffsetGone for a place that cannot be read; without one it is the end.
  OutputCursor(std::shared_ptr<Session> session, Stream stream, std::optional<Offset> from, std::size_t window);
  /// Goes on for another that got as far as `from`, and of that has acknowledged what is below `acked`. What is gone by
  /// now is its first gap. Throws InvalidParams for places that the other cannot have had.
  OutputCursor(std::shared_ptr<Session> session, Stream stream, Offset from, Offset acked, std::size_t window);

  [[nodiscard]] Session& session() const { return *session_; }
  [[nodiscard]] Stream stream() const { return stream_; }
  /// Of the next byte.
  [[nodiscard]] Offset place() const { return next_; }
  [[nodiscard]] bool has_next() const;
  /// Up to `most` bytes, and no end within a character where that is up to us; nothing while `has_next` is false.
  [[nodiscard]] std::optional<OutputPiece> next(std::size_t most);
  /// Everything below has been consumed. What was never handed out cannot be.
  void acknowledge(Offset upto);

 private:
  [[nodiscard]] std::size_t room() const { return window_ - static_cast<std::size_t>(next_ - base_); }

  std::shared_ptr<Session> session_;
  Stream stream_;
  std::size_t window_;
  Offset next_;
  Offset base_;  // `next_` less what has been handed out and not been acknowledged
  bool done_ = false;
};

}  // namespace rex::shell
