// Every byte of output passes here once, so the head is closed early and the tail is moved only when it has doubled.
// Must not cut an edited line: its text has no place of its own in the journal.
#include "shell/output_text.h"

#include <algorithm>

#include "base/encoding.h"

namespace rex::shell {

OutputText::OutputText(View view, std::size_t max_bytes, Offset from)
    : view_(view), max_(max_bytes), from_(from), next_(from), clean_(from), head_to_(from) {}

void OutputText::feed(std::string_view bytes) {
  if (view_ == View::clean) {
    clean_.feed(bytes, [this](const Piece& piece) { add(piece); });
  } else {
    add({bytes, next_, next_ + bytes.size(), true});
  }
  next_ += bytes.size();
}

void OutputText::add(Piece piece) {
  if (head_closed_ || piece.text.empty()) {
    add_tail(piece);
    return;
  }
  const std::size_t room = max_ / 2 - head_.size();
  head_closed_ = piece.text.size() > room;
  const std::size_t size = head_closed_ ? (piece.exact ? room : 0) : piece.text.size();
  head_ += piece.text.substr(0, size);
  text_size_ += size;
  if (!head_closed_) {
    head_to_ = piece.to;
    return;
  }
  if (size > 0) {
    head_to_ = piece.from + size;
    piece.text.remove_prefix(size);
    piece.from += size;
  }
  // The character that the cut would tear goes to the tail; a part of it may have come with the piece before.
  const std::string torn = head_.substr(head_.size() - incomplete_utf8_tail(head_));
  head_.resize(head_.size() - torn.size());
  text_size_ -= torn.size();
  head_to_ -= torn.size();
  add_tail({torn, head_to_, head_to_ + torn.size(), true});
  add_tail(piece);
}

void OutputText::add_tail(Piece piece) {
  if (piece.text.empty()) {
    return;
  }
  text_size_ += piece.text.size();
  if (piece.exact && piece.text.size() > wanted_size()) {  // only its end can be wanted
    const std::size_t skipped = piece.text.size() - wanted_size();
    piece.text.remove_prefix(skipped);
    piece.from += skipped;
    tail_.clear();
    parts_.clear();
  }
  const std::uint64_t at = text_size_ - piece.text.size();
  const bool continues = !parts_.empty() && parts_.back().exact && piece.exact && parts_.back().to == piece.from;
  if (continues) {
    parts_.back().to = piece.to;
  } else {
    parts_.push_back({at, piece.from, piece.to, piece.exact});
  }
  tail_ += piece.text;
  if (tail_.size() > 2 * wanted_size() + kSlack) {
    trim_tail();
  }
}

/// Forgets the text that the tail cannot need.
void OutputText::trim_tail() {
  const std::uint64_t tail_at = text_size_ - tail_.size();
  const std::uint64_t wanted = text_size_ - std::min(wanted_size(), tail_.size());
  while (parts_.size() > 1 && parts_[1].at <= wanted) {
    parts_.pop_front();
  }
  Part& first = parts_.front();
  if (first.exact && first.at < wanted) {
    first.from += wanted - first.at;
    first.at = wanted;
  } else if (first.at < wanted) {
    parts_.pop_front();  // an edited line, longer than all that may be kept
  }
  const std::uint64_t keep_from = parts_.empty() ? text_size_ : parts_.front().at;
  tail_.erase(0, keep_from - tail_at);
}

/// Makes the tail as short as the head leaves room for, between characters, and says where it starts in the journal.
Offset OutputText::cut_tail() {
  const std::size_t room = max_ - head_.size();
  std::uint64_t at = text_size_ - tail_.size();
  const std::uint64_t wanted = text_size_ - std::min(room, tail_.size());
  while (!parts_.empty() && at < wanted) {
    const Part part = parts_.front();
    parts_.pop_front();
    const std::uint64_t part_end = parts_.empty() ? text_size_ : parts_.front().at;
    if (!part.exact || part_end <= wanted) {
      at = part_end;
      continue;
    }
    const std::string_view text = std::string_view(tail_).substr(part.at - (text_size_ - tail_.size()));
    std::uint64_t cut = wanted - part.at;
    if (const std::size_t split = incomplete_utf8_tail(text.substr(0, cut)); split > 0) {
      const std::size_t whole = utf8_sequence(text.substr(cut - split, 4));
      cut += whole > split ? whole - split : 0;  // otherwise it is no character that the cut would tear
    }
    at = part.at + cut;
    parts_.push_front({at, part.from + cut, part.to, true});
    break;
  }
  tail_.erase(0, tail_.size() - (text_size_ - at));
  return parts_.empty() ? next_ : parts_.front().from;
}

CollectedOutput OutputText::finish() {
  clean_.finish([this](const Piece& piece) { add(piece); });
  CollectedOutput result;
  result.from = from_;
  result.next = next_;
  result.total_bytes = next_ - from_;
  result.replaced = clean_.replaced();
  result.alternate_bytes = clean_.alternate_bytes();
  if (text_size_ > max_) {
    const Offset tail_from = cut_tail();
    result.omitted = {text_size_ - head_.size() - tail_.size(), head_to_, tail_from, head_.size()};
  }
  result.output = std::move(head_) + tail_;
  if (!is_utf8(result.output)) {
    result.output = to_base64(result.output);
    result.base64 = true;
  }
  return result;
}

}  // namespace rex::shell
