// Two paths: lines without control codes are looked through at the speed of memory and copied only when a chunk cuts
// them; the others go character by character into an EditLine. Must yield the same text for every cut into chunks.
#include "shell/clean_view.h"

#include <algorithm>

#include "base/encoding.h"
#include "shell/char_width.h"

namespace rex::shell {
namespace {

constexpr unsigned char kEscape = EscapeParser::kEscape;
constexpr unsigned char kDelete = 0x7F;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_control(unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == kDelete; }

/// The number of a C1 code (U+0080 to U+009F) that `bytes` begins with, else 0.
unsigned char c1_code(std::string_view bytes) {
  const bool is_c1 = bytes.size() >= 2 && bytes[0] == '\xC2' && static_cast<unsigned char>(bytes[1]) < 0xA0 &&
                     static_cast<unsigned char>(bytes[1]) >= 0x80;
  return is_c1 ? static_cast<unsigned char>(bytes[1]) : 0;
}

/// How many bytes come before the first control code other than tab and line feed. The inner loop has no way out, so
/// that it is made of vector instructions.
std::size_t before_control(std::string_view bytes) {
  constexpr std::size_t block = 128;
  std::size_t at = 0;
  bool ascii = true;
  for (; at + block <= bytes.size(); at += block) {
    unsigned char found = 0;
    unsigned char high = 0;
    for (std::size_t i = 0; i < block; ++i) {
      const auto c = static_cast<unsigned char>(bytes[at + i]);
      found = static_cast<unsigned char>(found | (((c < 0x20) & (c != '\n') & (c != '\t')) | (c == kDelete)));
      high = static_cast<unsigned char>(high | c);
    }
    ascii = ascii && high < 0x80;
    if (found != 0) {
      break;
    }
  }
  for (; at < bytes.size() && !is_control(static_cast<unsigned char>(bytes[at])); ++at) {
    ascii = ascii && static_cast<unsigned char>(bytes[at]) < 0x80;
  }
  if (ascii) {
    return at;
  }
  bytes = bytes.substr(0, at);
  for (std::size_t c2 = bytes.find('\xC2'); c2 != std::string_view::npos; c2 = bytes.find('\xC2', c2 + 1)) {
    if (c1_code(bytes.substr(c2)) != 0) {
      return c2;
    }
  }
  return at;
}

/// The length of the maximal part, at the start of `bytes`, that belongs to one broken character.
std::size_t broken_part(std::string_view bytes) {
  for (std::size_t size = std::min<std::size_t>(3, bytes.size()); size > 1; --size) {
    if (incomplete_utf8_tail(bytes.substr(0, size)) == size) {
      return size;
    }
  }
  return 1;
}

}  // namespace

CleanView::CleanView(Offset from) : at_(from), piece_from_(from), rows_(1) {}

void CleanView::feed(std::string_view bytes, const Sink& sink) {
  while (!split_.empty() && !bytes.empty()) {
    std::string character;
    character.swap(split_);
    character += bytes.front();
    bytes.remove_prefix(1);
    take(character, sink);
  }
  if (!bytes.empty()) {
    take(bytes, sink);
  }
}

void CleanView::finish(const Sink& sink) {
  std::string character;
  character.swap(split_);
  parser_.reset();
  if (!character.empty()) {
    if (edited_ && !alternate_) {
      take_character(character, sink);
    } else {
      at_ += character.size();
      alternate_bytes_ += alternate_ ? character.size() : 0;
      hold_plain(alternate_ ? std::string_view() : character, sink);
    }
  }
  if (edited_) {
    hand_over_rows(Ending::end_of_bytes, sink);
  } else {
    hand_over_plain(plain_, sink);
    plain_.clear();
  }
}

void CleanView::take(std::string_view bytes, const Sink& sink) {
  const std::size_t tail = incomplete_utf8_tail(bytes);
  const std::string_view cut = bytes.substr(bytes.size() - tail);
  bytes.remove_suffix(tail);
  while (!bytes.empty()) {
    const bool alternate = alternate_;
    const Offset before = at_;
    if (parser_.inside() || alternate) {
      take_sequence(bytes, sink);
    } else if (edited_) {
      take_edited(bytes, sink);
    } else {
      take_plain(bytes, sink);
    }
    bytes.remove_prefix(at_ - before);
    alternate_bytes_ += alternate ? at_ - before : 0;
  }
  split_ = cut;
}

void CleanView::take_plain(std::string_view bytes, const Sink& sink) {
  const std::string_view run = bytes.substr(0, before_control(bytes));
  if (run.empty()) {
    begin_edit(sink);
    return;
  }
  at_ += run.size();
  const std::size_t lines = run.rfind('\n') + 1;  // npos + 1 is 0
  if (lines > 0) {
    hand_over_plain(plain_, sink);
    plain_.clear();
    hand_over_plain(run.substr(0, lines), sink);
  }
  hold_plain(run.substr(lines), sink);
}

/// Keeps text of the unfinished line, whose end is not known to come before a carriage return.
void CleanView::hold_plain(std::string_view text, const Sink& sink) {
  while (!text.empty()) {
    std::size_t fits = std::min(text.size(), EditLine::kMaxColumns - plain_.size());
    if (fits < text.size()) {
      fits -= incomplete_utf8_tail(text.substr(0, fits));
    }
    plain_ += text.substr(0, fits);
    text.remove_prefix(fits);
    if (!text.empty()) {
      hand_over_plain(plain_, sink);
      plain_.clear();
    }
  }
}

void CleanView::hand_over_plain(std::string_view text, const Sink& sink) {
  const auto hand_over = [&](std::string_view part, std::size_t size, bool exact) {
    const Offset from = piece_from_;
    piece_from_ += size;
    sink({part, from, piece_from_, exact});
  };
  while (!text.empty()) {
    const std::size_t good = first_invalid_utf8(text);
    if (good > 0) {
      hand_over(text.substr(0, good), good, true);
      text.remove_prefix(good);
      continue;
    }
    const std::size_t broken = broken_part(text);
    ++replaced_;
    hand_over(kReplacement, broken, false);
    text.remove_prefix(broken);
  }
}

void CleanView::begin_edit(const Sink& sink) {
  edited_ = true;
  for (std::string_view rest = plain_; !rest.empty();) {
    const std::size_t good = first_invalid_utf8(rest);
    const std::size_t broken = good < rest.size() ? broken_part(rest.substr(good)) : 0;
    line().append(rest.substr(0, good));
    if (broken > 0) {
      ++replaced_;
      line().append(kReplacement);
    }
    rest.remove_prefix(good + broken);
  }
  plain_.clear();
  if (line().full()) {
    hand_over_full_line(sink);
  }
}

void CleanView::take_edited(std::string_view bytes, const Sink& sink) {
  const auto first = static_cast<unsigned char>(bytes.front());
  if (first >= 0x80) {
    take_character(bytes, sink);
  } else if (first < 0x20 || first == kDelete) {
    ++at_;
    control(first, sink);
  } else {
    const std::size_t most = std::min(bytes.size(), EditLine::kMaxColumns - line().size());
    std::size_t size = 1;
    while (size < most && bytes[size] >= 0x20 && bytes[size] < kDelete) {
      ++size;
    }
    at_ += size;
    line().put_ascii(bytes.substr(0, size));
  }
  if (line().full()) {
    hand_over_full_line(sink);
  }
}

void CleanView::take_character(std::string_view bytes, const Sink& sink) {
  if (const unsigned char code = c1_code(bytes); code != 0) {
    at_ += 2;
    if (!parser_.open(code)) {
      act_escape(static_cast<char>(code - 0x40), sink);
    }
    return;
  }
  const std::size_t length = utf8_sequence(bytes);
  if (length == 0) {
    ++replaced_;
    at_ += broken_part(bytes);
    line().put(kReplacement, 1);
    return;
  }
  at_ += length;
  line().put(bytes.substr(0, length), char_width(decode_utf8(bytes.substr(0, length))));
}

/// Bytes of a control sequence, and those of the alternate screen, where only a sequence means anything.
void CleanView::take_sequence(std::string_view bytes, const Sink& sink) {
  if (!parser_.inside()) {
    if (const unsigned char code = c1_code(bytes); code != 0) {
      at_ += 2;
      parser_.open(code);
    } else if (bytes.front() == kEscape) {
      ++at_;
      parser_.open(kEscape);
    } else {
      at_ += std::min(bytes.find_first_of("\x1B\xC2", 1), bytes.size());
    }
    return;
  }
  const std::size_t inner = parser_.skip(bytes);
  at_ += inner;
  if (inner == bytes.size()) {
    return;
  }
  const EscapeParser::Step step = parser_.step(static_cast<unsigned char>(bytes[inner]));
  at_ += step == EscapeParser::Step::refused ? 0 : 1;
  if (step == EscapeParser::Step::complete) {
    act(parser_.sequence(), sink);
  }
}

}  // namespace rex::shell
