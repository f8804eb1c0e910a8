#include "shell/output_cursor.h"

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"

namespace rex::shell {

OutputCursor::OutputCursor(std::shared_ptr<Session> session, Stream stream, std::optional<Offset> from,
                           std::size_t window)
    : session_(std::move(session)),
      stream_(stream),
      window_(window),
      next_(session_->place_in(stream, from)),
      base_(next_) {}

OutputCursor::OutputCursor(std::shared_ptr<Session> session, Stream stream, Offset from, Offset acked,
                           std::size_t window)
    : OutputCursor(std::move(session), stream, std::nullopt, window) {
  next_ = session_->place_in(stream, std::max(from, session_->output(stream).oldest()));
  if (acked > from || from - acked > window) {
    throw invalid_params("acked", "at most offset, and at most a window below it");
  }
  next_ = from;
  base_ = acked;
}

bool OutputCursor::has_next() const {
  const bool more = next_ < session_->output(stream_).end();
  return !done_ && (more ? room() > 0 : session_->is_over(stream_));
}

std::optional<OutputPiece> OutputCursor::next(std::size_t most) {
  if (!has_next()) {
    return std::nullopt;
  }
  Journal& journal = session_->output(stream_);
  OutputPiece piece;
  if (next_ < journal.oldest()) {
    piece.lost_from = next_;
    base_ += journal.oldest() - next_;  // what was lost takes up no window
    next_ = journal.oldest();
  }
  piece.offset = next_;
  const auto there = static_cast<std::size_t>(journal.end() - next_);
  piece.data.resize(std::min({most, room(), there}));
  piece.data.resize(journal.read(next_, piece.data.data(), piece.data.size()));
  const std::size_t cut = incomplete_utf8_tail(piece.data);
  if (piece.data.size() < there && cut < piece.data.size()) {
    piece.data.resize(piece.data.size() - cut);
  }
  next_ += piece.data.size();
  done_ = piece.last = next_ == journal.end() && session_->is_over(stream_);
  return piece;
}

void OutputCursor::acknowledge(Offset upto) {
  upto = std::min(upto, next_);
  session_->consumed(stream_, upto);
  base_ = std::max(base_, upto);
}

}  // namespace rex::shell
