// What a session's output does to the terminal itself: modes it sets, questions it asks, the title, the bell. Looks at
// control sequences only, so that a flood of text costs next to nothing. Must not know the screen, nor who answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shell/escape.h"
#include "shell/offset.h"

namespace rex::shell {

/// What a program asks its terminal and waits to be told.
struct TerminalQuery {
  enum class Kind : std::uint8_t {
    attributes,            // CSI c, ESC Z
    secondary_attributes,  // CSI > c
    status,                // CSI 5 n
    cursor,                // CSI 6 n
    extended_cursor,       // CSI ? 6 n
    size,                  // CSI 18 t
    mode,                  // CSI Ps $ p
    private_mode,          // CSI ? Ps $ p
    version,               // CSI > q
    setting,               // DCS $ q
    capability,            // DCS + q
    colour,                // OSC 10, 11 or 12 with ?
  };
  Kind kind;
  unsigned number = 0;  // of a mode or a colour
  bool bell = false;    // the question ended with BEL, and so does its answer
  Offset end = 0;       // behind its last byte
};

/// Passive; fed every byte of a terminal's output once. A sequence is what shell/escape.h takes for one.
class TerminalScan {
 public:
  static constexpr std::size_t kMaxString = 1024;
  /// Questions told of one piece of output; no program has more of them open.
  static constexpr std::size_t kMaxQueries = 64;

  explicit TerminalScan(Offset from = 0) : next_(from), drawn_(from), blank_(from) {}

  /// Returns what is asked in `bytes`.
  std::vector<TerminalQuery> feed(std::string_view bytes, int rows);

  /// Whether a mode is set: a number of DECSET (CSI ? Ps h), with the defaults of a terminal at its start.
  [[nodiscard]] bool is_set(unsigned mode) const;
  static bool keeps(unsigned mode);
  [[nodiscard]] bool application_cursor() const { return is_set(1); }
  [[nodiscard]] bool application_keypad() const { return is_set(66); }
  [[nodiscard]] bool alternate() const { return is_set(47) || is_set(1047) || is_set(1049); }
  /// Behind the sequence that last switched between the two screens.
  [[nodiscard]] Offset alternate_changed() const { return alternate_changed_; }
  /// Letters are not letters, or lines do not scroll: what was drawn long ago may still be there.
  [[nodiscard]] bool unusual() const { return region_ || graphics_ || insert_ || is_set(6) || !is_set(7); }
  /// Something is in force that a program should have taken back.
  [[nodiscard]] bool unrestored() const;

  /// Behind the last sequence after which the screen was more than the last lines of the text.
  [[nodiscard]] Offset drawn() const { return drawn_; }
  /// Behind the last sequence after which the screen was empty, with the cursor at home.
  [[nodiscard]] Offset blank() const { return blank_; }

  /// At most kMaxString bytes of UTF-8 without control codes.
  [[nodiscard]] const std::string& title() const { return title_; }
  /// Whether the bell rang, or the title changed, since this was last asked.
  bool take_bell() { return std::exchange(bell_, false); }
  bool take_title_change() { return std::exchange(title_changed_, false); }

  /// All modes are as at the start; told with what a real terminal has to be told to be so, too.
  std::string restore();

 private:
  void text(std::string_view bytes);
  void in_sequence(unsigned char byte);
  void complete(const Escape& sequence);
  void csi(const Escape& sequence);
  void set_modes(const Escape& sequence, bool on);
  void set_region(unsigned top, unsigned bottom);
  void string_ended(bool bell);
  void operating_command(std::string_view text, bool bell);
  void ask(TerminalQuery::Kind kind, unsigned number = 0, bool bell = false);
  void ask_if(bool asked, TerminalQuery::Kind kind) { asked ? ask(kind) : void(); }
  void draw() { drawn_ = at_; }
  void erase_or_home(const Escape& sequence);
  void reset();

  EscapeParser parser_;
  Offset next_;
  Offset at_ = 0;  // behind the byte looked at
  Offset drawn_;
  Offset blank_;
  Offset begun_ = 0;    // where the sequence looked at begins
  Offset home_ = 0;     // behind the last that moved the cursor home
  Offset cleared_ = 0;  // behind the last that erased the screen
  Offset alternate_changed_ = 0;
  int rows_ = 0;

  std::map<unsigned, bool> modes_;  // those that are not at their default
  bool region_ = false;
  bool graphics_ = false;
  bool insert_ = false;

  bool after_escape_ = false;
  char string_kind_ = 0;  // the letter of its introducer: ] P _ ^ X
  std::string string_;
  std::string title_;
  bool title_changed_ = false;
  bool bell_ = false;
  std::vector<TerminalQuery> queries_;
};

}  // namespace rex::shell
