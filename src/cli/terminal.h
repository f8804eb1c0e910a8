// The terminal in front of a person: raw while it shows a session, and as it was afterwards. Knows no session.
#pragma once

#include <termios.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rex::cli {

/// Standard input and output as a raw terminal, until it is destroyed: then its modes are what they were, and what
/// programs have switched on by escape sequences meanwhile is switched off.
class RawTerminal {
 public:
  /// Throws OsError where standard input is no terminal.
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  /// At once what destroying it would do; from then on nothing is shown.
  void restore();

  void show(std::string_view bytes);
  /// A line of our own between what is shown.
  void notice(std::string_view text);
  [[nodiscard]] bool at_line_start() const { return last_ == '\n'; }

  struct Size {
    int rows;
    int cols;
  };
  [[nodiscard]] static Size size();

 private:
  void note_modes(std::string_view bytes);

  termios before_{};
  bool restored_ = false;
  std::set<int> switched_;  // private modes that are not as they were at first
  std::string held_;        // the beginning of a sequence that sets one; at most max_held bytes
  bool escapes_ = false;    // there was any escape sequence
  char last_ = '\n';
};

/// What a person typed, taken apart: text for the program, and our own commands, which are `~` and a letter at the
/// beginning of a line. Passive.
class TypedKeys {
 public:
  enum class Command { detach, type, take_over, watch, help };
  struct Part {
    std::string text;  // before the command
    std::optional<Command> command;
  };
  std::vector<Part> feed(std::string_view bytes);

 private:
  enum class Place { line, line_start, tilde };
  Place place_ = Place::line_start;
};

/// A line typed where no program reads: echoed and edited here. Passive.
class TypedLine {
 public:
  struct Fed {
    std::string echo;
    std::vector<std::string> lines;  // complete ones
    bool was_left = false;           // by the interrupt key: a new one begins
  };
  Fed feed(std::string_view bytes);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  enum class Escape { none, begun, open };

  std::string text_;              // at most max_line bytes
  Escape escape_ = Escape::none;  // in what an arrow or the like sends: there is nothing to move in
};

}  // namespace rex::cli
