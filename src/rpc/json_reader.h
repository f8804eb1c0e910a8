// Strict JSON (RFC 8259) into a tree, with what JSON-RPC needs besides: where the ids and params are in the text, and
// which messages must be refused although they are well-formed. No I/O; knows no method.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rpc/limits.h"

namespace rex::rpc {

/// One message of the text: the whole of it, or one element of a batch.
struct Passage {
  std::string_view id;           // the member as written; empty if absent, or given twice
  std::string_view params;       // likewise
  std::string_view result;       // likewise
  bool asks = false;             // there is a member `method`
  bool answers = false;          // there is a member `result` or `error`
  std::optional<Error> refused;  // a duplicate key, or something beyond a limit: its tree is incomplete
};

struct Document {
  nlohmann::json root;
  std::vector<Passage> passages;  // of root, or of its elements if root is an array
  std::optional<Error> refused;   // ParseError, or the text as a whole is beyond a limit: nothing else is of use
  std::size_t refused_at = 0;     // the byte before which that was seen, of it or of the last passage refused
};

/// Whether a message's result is wanted as a tree, or its extent alone: then it is null in the tree, and two equal keys
/// in it are its reader's to find. Or the text is such a result itself: one passage, also if it is an array.
enum class Results { built, passed_over, itself };

/// Never throws for any text. Not nlohmann's own parser, because that takes NUL for the end of the input, lets the last
/// of two equal keys win, recurses when it copies deep trees, and rounds integers without saying so where it stores
/// them.
Document read_json(std::string_view text, const Limits& limits, Results results = Results::built);

}  // namespace rex::rpc
