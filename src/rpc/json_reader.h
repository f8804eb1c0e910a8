// Strict JSON (RFC 8259), value by value: into a tree, or only passed over. No I/O; knows no message.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rpc/json_text.h"
#include "rpc/limits.h"

namespace rex::rpc {

/// One pass over one text, without recursion. What is well-formed and yet not taken (a duplicate key, something beyond
/// a limit) is noted; from there on the syntax is still checked, but nothing built: malformed always comes before
/// refused. Not nlohmann's own parser, because that takes NUL for the end of the input, lets the last of two equal keys
/// win, recurses when it copies deep trees, and rounds integers without saying so where it stores them.
class JsonReader {
 public:
  /// Both must outlive it. The text has been seen to be UTF-8.
  JsonReader(std::string_view text, const Limits& limits);
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  /// These are false where the text ceases to be JSON, and stay there.
  ///
  /// The value that begins here, into `into`. Null: it is passed over, and two equal keys in it are not seen.
  bool read_value(nlohmann::json* into);
  /// A key with its colon, up to the value. Then text() is it.
  bool read_key();
  /// On to the next item of the container that step_in() has opened, or out of it: then `item` is false.
  bool read_item(bool* item);
  /// Nothing but space is left.
  bool read_end();

  /// Whether this is what comes next, behind spaces.
  bool is_at(char c);
  /// Into the container that begins here, whose items are the caller's to read.
  void step_in();
  [[nodiscard]] const char* here() const { return in_.here(); }
  [[nodiscard]] std::string_view since(const char* start) const { return in_.since(start); }
  /// The last key or string; valid until the next.
  [[nodiscard]] std::string_view text() const { return text_; }

  /// Nothing has been refused: what is read is still of use.
  [[nodiscard]] bool is_building() const { return building_ && values_ < limits_.json_values; }
  /// The last key has come before in its object.
  void refuse_twice();
  /// Why what was read since this was last asked is not taken; nullopt if it is.
  std::optional<Error> take_refusal();
  /// Why the text as a whole is not: it is no JSON from here on, or has too many values.
  [[nodiscard]] std::optional<Error> failure() const;
  /// The byte before which the last of these was seen.
  [[nodiscard]] std::size_t stopped_at() const { return stopped_at_; }

 private:
  struct Level {
    nlohmann::json* node;  // null: the caller reads it
    char closing;
    bool has_items = false;
  };

  bool begin_value(nlohmann::json* into);
  bool open(nlohmann::json* into);
  bool pass_over();
  bool next_in_container();
  bool next_item(Level& level, bool* item);
  nlohmann::json* member_of(nlohmann::json& object);
  bool read_text();
  bool take_word();
  void note_depth(std::size_t depth);
  bool read_number(nlohmann::json* into);
  bool fail();
  void refuse(Error error);

  const Limits& limits_;
  Scanner in_;
  std::vector<Level> levels_;  // what is open and built, or stepped into; at most limits.json_depth
  std::size_t stepped_in_ = 0;
  std::string passed_;  // the ends of what is open and passed over
  std::string_view text_;
  std::string room_;  // for a text with escapes
  std::size_t values_ = 0;
  bool malformed_ = false;
  bool building_ = true;
  std::optional<Error> refused_;
  std::size_t stopped_at_ = 0;
};

/// A text that is one value.
struct Document {
  nlohmann::json root;
  std::optional<Error> refused;  // ParseError, or something in it is not taken: the root is of no use
  std::size_t refused_at = 0;    // the byte before which that was seen
};

/// Never throws for any text.
Document read_json(std::string_view text, const Limits& limits);

}  // namespace rex::rpc
