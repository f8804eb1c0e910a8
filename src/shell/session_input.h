// What is typed into a session's terminal, or written to its program's pipe: in turns, whole lines only, counted.
// Knows no jobs: the Session decides who may type and what an interrupt typed means.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "shell/incarnation.h"

namespace rex::shell {

/// One write.
struct Typing {
  std::string data;
  bool submit = false;                      // press Enter behind it
  bool eof = false;                         // close the pipe, or type the terminal's end of file
  bool secret = false;                      // leave no copy of it
  std::vector<std::string> keys = {};       // pressed behind `data`: names of shell/keys.h
  std::optional<std::int64_t> offset = {};  // where in all that is ever written it begins; what was taken is left out
};

/// What became of it.
struct Typed {
  std::size_t accepted = 0;  // bytes the terminal or pipe took, Enter and end of file included, now or before
  bool interrupts = false;   // the terminal's interrupt character was among them
};

class SessionInput {
 public:
  explicit SessionInput(Executor executor) : executor_(executor) {}

  /// Writes in the order of the calls. Gives up when there was no room for a second, at a wish of `cancel`, and when
  /// the input is closed meanwhile. Throws InputRefused `{reason}` for what the program would not get as it is:
  /// closed, lineTooLong, noEof, gap (`at`: bytes before its offset are missing); nothing was written then unless its
  /// `executed` says so.
  Task<Typed> write(std::shared_ptr<Incarnation> in, Typing typing, Cancel& cancel);

  /// All bytes taken so far.
  [[nodiscard]] std::int64_t offset() const { return offset_; }

 private:
  class Turn;

  [[nodiscard]] std::size_t taken_before(const Typing& typing, std::size_t size) const;
  /// `data` is its caller's, who waits for it: no copy.
  Task<std::size_t> write_all_of(std::shared_ptr<Incarnation> in, std::string_view data, Cancel& cancel);
  static Task<> announce_room(std::shared_ptr<Incarnation> in, std::shared_ptr<Event> room);

  Executor executor_;
  std::int64_t offset_ = 0;
  std::size_t unfinished_line_ = 0;  // bytes typed since the last Enter
  std::uint64_t next_ticket_ = 0;
  std::uint64_t turn_ = 0;  // the ticket that may write
  Event turn_changed_;
};

}  // namespace rex::shell
