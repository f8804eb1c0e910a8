#include "shell/keys.h"

#include <algorithm>
#include <iterator>

#include "base/encoding.h"
#include "base/error.h"

namespace rex::shell {
namespace {

enum class Sends {
  byte,    // itself
  letter,  // CSI letter, in application mode SS3 letter
  number,  // CSI number ~
  pf,      // SS3 letter; with a modifier CSI 1 ; m letter
  keypad,  // a character, in application mode SS3 letter
};

struct Key {
  const char* name;
  Sends sends;
  int code;  // a byte, a letter, or a number; of the keypad the letter
  char plain = 0;
};

constexpr Key keys[] = {
    {"Enter", Sends::byte, '\r'},     {"Tab", Sends::byte, '\t'},
    {"Escape", Sends::byte, 0x1B},    {"Space", Sends::byte, ' '},
    {"Backspace", Sends::byte, 0x7F}, {"Up", Sends::letter, 'A'},
    {"Down", Sends::letter, 'B'},     {"Right", Sends::letter, 'C'},
    {"Left", Sends::letter, 'D'},     {"Home", Sends::letter, 'H'},
    {"End", Sends::letter, 'F'},      {"Insert", Sends::number, 2},
    {"Delete", Sends::number, 3},     {"PageUp", Sends::number, 5},
    {"PageDown", Sends::number, 6},   {"F1", Sends::pf, 'P'},
    {"F2", Sends::pf, 'Q'},           {"F3", Sends::pf, 'R'},
    {"F4", Sends::pf, 'S'},           {"F5", Sends::number, 15},
    {"F6", Sends::number, 17},        {"F7", Sends::number, 18},
    {"F8", Sends::number, 19},        {"F9", Sends::number, 20},
    {"F10", Sends::number, 21},       {"F11", Sends::number, 23},
    {"F12", Sends::number, 24},       {"KP0", Sends::keypad, 'p', '0'},
    {"KP1", Sends::keypad, 'q', '1'}, {"KP2", Sends::keypad, 'r', '2'},
    {"KP3", Sends::keypad, 's', '3'}, {"KP4", Sends::keypad, 't', '4'},
    {"KP5", Sends::keypad, 'u', '5'}, {"KP6", Sends::keypad, 'v', '6'},
    {"KP7", Sends::keypad, 'w', '7'}, {"KP8", Sends::keypad, 'x', '8'},
    {"KP9", Sends::keypad, 'y', '9'}, {"KPEnter", Sends::keypad, 'M', '\r'},
    {"KP+", Sends::keypad, 'k', '+'}, {"KP-", Sends::keypad, 'm', '-'},
    {"KP*", Sends::keypad, 'j', '*'}, {"KP/", Sends::keypad, 'o', '/'},
    {"KP.", Sends::keypad, 'n', '.'},
};

struct Modifiers {
  bool shift = false;
  bool meta = false;
  bool control = false;

  [[nodiscard]] bool any() const { return shift || meta || control; }
  /// xterm's parameter.
  [[nodiscard]] std::string parameter() const {
    return std::to_string(1 + (shift ? 1 : 0) + (meta ? 2 : 0) + (control ? 4 : 0));
  }
};

/// Takes the modifiers off `key`.
Modifiers modifiers_of(std::string_view& key) {
  Modifiers found;
  while (key.size() > 2 && key[1] == '-') {
    bool& which = key[0] == 'C' ? found.control : key[0] == 'M' ? found.meta : found.shift;
    if ((key[0] != 'C' && key[0] != 'M' && key[0] != 'S') || which) {
      break;
    }
    which = true;
    key.remove_prefix(2);
  }
  return found;
}

[[noreturn]] void refuse(std::string_view member, std::string_view key, std::string_view why) {
  throw invalid_params(member, "`" + printable(key) + "` " + std::string(why)).with("known", key_names());
}

/// What Control makes of an ASCII character: 0x00 to 0x1F, or DEL. -1 when it has no code of its own.
int control_code(char character) {
  if (character >= 'a' && character <= 'z') {
    return character - 'a' + 1;
  }
  if (character >= '@' && character <= '_') {
    return character - '@';
  }
  return character == ' ' ? 0 : character == '?' ? 0x7F : -1;
}

std::string character_bytes(std::string_view key, std::string_view character, Modifiers with, std::string_view member) {
  std::string bytes(character);
  if (with.shift) {
    refuse(member, key, "is told by the character itself, not by S-");
  }
  if (with.control) {
    const int code = character.size() == 1 ? control_code(character[0]) : -1;
    if (code < 0) {
      refuse(member, key, "has no code that a terminal could send");
    }
    bytes = std::string(1, static_cast<char>(code));
  }
  return (with.meta ? "\033" : "") + bytes;
}

std::string named_bytes(std::string_view name, const Key& key, Modifiers with, KeyModes modes,
                        std::string_view member) {
  const std::string letter(1, static_cast<char>(key.code));
  switch (key.sends) {
    case Sends::letter:
      return with.any()                 ? "\033[1;" + with.parameter() + letter
             : modes.application_cursor ? "\033O" + letter
                                        : "\033[" + letter;
    case Sends::pf: return with.any() ? "\033[1;" + with.parameter() + letter : "\033O" + letter;
    case Sends::number: return "\033[" + std::to_string(key.code) + (with.any() ? ";" + with.parameter() : "") + "~";
    case Sends::keypad:
      if (!with.any()) {
        return modes.application_keypad ? "\033O" + letter : std::string(1, key.plain);
      }
      break;
    case Sends::byte:
      if (key.code == '\t' && with.shift && !with.control) {
        return with.meta ? "\033\033[Z" : "\033[Z";
      }
      if (!with.shift && (!with.control || key.code == ' ' || key.code == 0x7F)) {
        const int code = !with.control ? key.code : key.code == ' ' ? 0 : '\b';
        return (with.meta ? "\033" : "") + std::string(1, static_cast<char>(code));
      }
      break;
  }
  refuse(member, name, "is no combination that a terminal could send");
}

}  // namespace

std::string key_bytes(std::string_view key, KeyModes modes, std::string_view member) {
  std::string_view name = key;
  const Modifiers with = modifiers_of(name);
  const auto* const known =
      std::find_if(std::begin(keys), std::end(keys), [&](const Key& each) { return name == each.name; });
  if (known != std::end(keys)) {
    return named_bytes(key, *known, with, modes, member);
  }
  if (name.empty() || utf8_sequence(name) != name.size() || static_cast<unsigned char>(name[0]) < 0x20 ||
      name[0] == 0x7F) {
    refuse(member, key, "is neither one character nor a key we know");
  }
  return character_bytes(key, name, with, member);
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : keys) {
    names.emplace_back(key.name);
  }
  return names;
}

}  // namespace rex::shell
