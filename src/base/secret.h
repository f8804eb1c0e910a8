// Bytes that are to leave no copy: a password on its way from a client to a program.
#pragma once

#include <string>
#include <string_view>

namespace rex {

/// Overwrites what `text` holds and what it held before, and empties it.
void wipe(std::string& text);

/// Moves `text` into memory of its own and wipes it: a short string lives inside its object, and each move of that
/// would leave a copy behind. What is appended, up to `more` bytes, makes none either.
std::string in_own_memory(std::string& text, std::size_t more = 16);

/// Room for `more` bytes behind what `text` holds. Where that has to move, no copy stays behind.
void make_room(std::string& text, std::size_t more);

/// Whether the two are the same, in a time that does not tell where they differ.
bool is_same_secret(std::string_view one, std::string_view other);

/// Wipes a string at the end of a scope. Null is nothing to wipe.
class Wiper {
 public:
  explicit Wiper(std::string* text) : text_(text) {}
  ~Wiper() {
    if (text_ != nullptr) {
      wipe(*text_);
    }
  }
  Wiper(const Wiper&) = delete;
  Wiper& operator=(const Wiper&) = delete;

 private:
  std::string* text_;
};

/// No core dump of this process will have its memory in it, piped to a collector or not. What it starts from here on
/// inherits that.
void keep_memory_out_of_core_dumps();

/// Which of our memory a core dump has, in the kernel's words, hexadecimal; empty where it has none for it.
std::string core_filter();
void set_core_filter(const std::string& filter);

}  // namespace rex
