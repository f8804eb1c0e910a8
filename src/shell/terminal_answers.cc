#include "shell/terminal_answers.h"

namespace rex::shell {
namespace {

constexpr const char* string_end = "\033\\";

std::string numbers(int first, int second) { return std::to_string(first) + ";" + std::to_string(second); }

}  // namespace

std::string answer_to(const TerminalQuery& query, const TerminalScan& terminal, WindowSize size, CursorPlace cursor) {
  using Kind = TerminalQuery::Kind;
  switch (query.kind) {
    case Kind::attributes: return "\033[?1;2c";                // a VT100 with advanced video: the least that all expect
    case Kind::secondary_attributes: return "\033[>0;100;0c";  // what libvterm says, whose screen this is
    case Kind::status: return "\033[0n";
    case Kind::cursor: return "\033[" + numbers(cursor.row + 1, cursor.col + 1) + "R";
    case Kind::extended_cursor: return "\033[?" + numbers(cursor.row + 1, cursor.col + 1) + "R";
    case Kind::size: return "\033[8;" + numbers(size.rows, size.cols) + "t";
    case Kind::mode: return "\033[" + numbers(static_cast<int>(query.number), 0) + "$y";  // not recognised
    case Kind::private_mode: {
      const int state = !TerminalScan::keeps(query.number) ? 0 : terminal.is_set(query.number) ? 1 : 2;
      return "\033[?" + numbers(static_cast<int>(query.number), state) + "$y";
    }
    case Kind::version: return std::string("\033P>|rex-rpc") + string_end;
    case Kind::setting: return std::string("\033P0$r") + string_end;     // no such setting
    case Kind::capability: return std::string("\033P0+r") + string_end;  // no such capability
    case Kind::colour: {
      const char* const rgb = query.number == 11 ? "0000/0000/0000" : "ffff/ffff/ffff";
      return "\033]" + std::to_string(query.number) + ";rgb:" + rgb + (query.bell ? "\007" : string_end);
    }
  }
  return {};
}

}  // namespace rex::shell
