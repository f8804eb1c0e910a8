// `view: "clean"`: the text a person would finally see, as a pure function of the bytes, whatever their chunks.
// Must not know journals, sessions or limits on output.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shell/edit_line.h"
#include "shell/escape.h"
#include "shell/offset.h"

namespace rex::shell {

/// Some text, and the bytes [from, to) it stands for. Pieces follow one another without a gap.
struct Piece {
  std::string_view text;  ///< UTF-8; valid during the call only
  Offset from;
  Offset to;
  bool exact;  ///< `text` is those bytes, so that it may be cut anywhere; otherwise it cannot be cut
};

/// Passive and I/O-free. Fed bytes, it hands pieces of text to the sink as soon as nothing can change them any more:
/// whole lines, because the next byte may be a carriage return.
///
/// * A line without control codes but tabs is handed over byte for byte; only what is no UTF-8 becomes U+FFFD, one for
///   each maximal part (as the web does it).
/// * `\r`, `\b`, HT, CSI C D G ` a (cursor), K (erase), P @ X (delete, insert, erase characters), ESC 7/8 and CSI s/u
///   (save, restore) act on the line. A line ends at `\n`; the `\r` of "\r\n" leaves no trace. Of a line that was
///   written over, blanks right of the cursor are left out: many programs wipe with spaces. A tab at the end of a line
///   stays a tab, since the text may be pasted into a Makefile.
/// * Colours, titles, hyperlinks (their text stays), modes, character sets and the other C0 and C1 codes are dropped.
/// * The alternate screen (modes 47, 1047, 1049) is left out and counted.
/// * Lines that have ended cannot be taken back. A program that goes up again (CSI A F, ESC M: docker pull, tqdm with
///   several bars, log-update) opens a *block*: the rows it goes over are kept, at most kMaxRows, and rewritten in
///   place; the block comes out once, as it stood last, when its rows have scrolled by or the output ends. What the
///   rows held before the block stands above it, because it is gone already. Taking each move for a line break instead
///   gives thousands of lines for one `docker pull`; ignoring it mixes rows. Addressed rows (CSI H f d) and a cleared
///   screen (CSI 2J) end the block and begin a line: nothing is lost, and nothing mixed.
/// * Of an edited line, text is handed over whenever EditLine::kMaxColumns are full, and `\r` returns to where it
/// ended.
///   That bounds memory for a line of any length.
class CleanView {
 public:
  using Sink = std::function<void(const Piece&)>;
  static constexpr std::size_t kMaxRows = 64;

  explicit CleanView(Offset from = 0);

  void feed(std::string_view bytes, const Sink& sink);

  /// The bytes end here: the line without `\n`, the open block and half a character come out. Feeding may go on, as
  /// after the beginning of a line.
  void finish(const Sink& sink);

  /// The offset of the next byte to be fed.
  [[nodiscard]] Offset next() const { return at_ + split_.size(); }
  /// How many parts of the text were no UTF-8 and became U+FFFD.
  [[nodiscard]] std::uint64_t replaced() const { return replaced_; }
  /// How many bytes were left out because they were meant for the alternate screen, the switch back included.
  [[nodiscard]] std::uint64_t alternate_bytes() const { return alternate_bytes_; }

 private:
  struct Row {
    EditLine line;
    bool begun = false;  // by a line feed; otherwise its text, if any, went out before the block
  };
  struct Place {
    std::size_t row = 0;
    std::size_t column = 0;
    bool gone = true;  // the row has been handed over
  };
  enum class Ending { line_feed, left, end_of_bytes };

  void take(std::string_view bytes, const Sink& sink);
  void take_plain(std::string_view bytes, const Sink& sink);
  void hold_plain(std::string_view bytes, const Sink& sink);
  void hand_over_plain(std::string_view bytes, const Sink& sink);
  void take_edited(std::string_view bytes, const Sink& sink);
  void take_character(std::string_view bytes, const Sink& sink);
  void take_sequence(std::string_view bytes, const Sink& sink);
  void begin_edit(const Sink& sink);
  void control(unsigned char code, const Sink& sink);
  void act(const Escape& sequence, const Sink& sink);
  void act_csi(const Escape& csi, const Sink& sink);
  void act_escape(char final, const Sink& sink);
  void line_feed(const Sink& sink);
  void up(std::size_t count);
  void down(std::size_t count, const Sink& sink);
  void add_row(bool begun);
  [[nodiscard]] bool block_is_full() const;
  void leave(std::size_t column, const Sink& sink);
  void erase_in_line(std::size_t part);
  void erase_in_display(std::size_t part, const Sink& sink);
  void restore_place(const Sink& sink);
  void hand_over_full_line(const Sink& sink);
  void hand_over_rows(Ending ending, const Sink& sink);
  EditLine& line() { return rows_[row_].line; }

  Offset at_;          // of the byte being taken
  Offset piece_from_;  // everything below has been handed over
  EscapeParser parser_;
  std::string split_;    // the beginning of a character that the chunk cut
  std::string plain_;    // the line so far while it holds no control code; then rows_ has it
  bool edited_ = false;  // the line holds a control code, or a block is open
  bool block_ = false;
  std::vector<Row> rows_;  // never empty; one, unless a block is open
  std::size_t row_ = 0;
  Place saved_;
  bool alternate_ = false;
  std::uint64_t replaced_ = 0;
  std::uint64_t alternate_bytes_ = 0;
};

}  // namespace rex::shell
