// The answers to one JSON-RPC batch, collected until they can leave as one text. Knows no connection, no framing and
// no JSON: a reply is text already.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rex::rpc {

/// An answer, and what an error in its place would say.
struct Answer {
  std::string text{};                // empty: there is none
  std::string id = "null";           // JSON
  Executed executed = Executed::no;  // whether what was asked for took place
};

/// The answers of one batch; they leave together when the last of them is there.
class Batch {
 public:
  explicit Batch(std::size_t messages) : replies_(messages) {}
  void expect_one() { ++missing_; }
  void put(std::size_t slot, Answer reply) { replies_[slot] = std::move(reply); }
  /// True when that was the last.
  bool one_less() { return --missing_ == 0; }

  /// That text() is long at most.
  [[nodiscard]] std::size_t bytes() const {
    std::size_t bytes = 2;
    for (const Answer& reply : replies_) {
      bytes += reply.text.size() + 1;
    }
    return bytes;
  }
  Answer& longest() {
    return *std::ranges::max_element(replies_, {}, [](const Answer& reply) { return reply.text.size(); });
  }

  /// Empty if there is nothing to answer.
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const Answer& reply : replies_) {
      if (!reply.text.empty()) {
        text += text.empty() ? '[' : ',';
        text += reply.text;
      }
    }
    return text.empty() ? text : text + ']';
  }

 private:
  std::vector<Answer> replies_;  // at most limits.batch
  std::size_t missing_ = 1;      // the batch itself, while it is taken apart
};

}  // namespace rex::rpc
