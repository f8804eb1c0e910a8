// The answers to one JSON-RPC batch, collected until they can leave as one text. Knows no connection, no framing and
// no JSON: a reply is text already.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace rex::rpc {

/// The answers of one batch; they leave together when the last of them is there.
class Batch {
 public:
  explicit Batch(std::size_t messages) : replies_(messages) {}
  void expect_one() { ++missing_; }
  void put(std::size_t slot, std::string reply) { replies_[slot] = std::move(reply); }
  /// True when that was the last.
  bool one_less() { return --missing_ == 0; }

  /// Empty if there is nothing to answer.
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::string& reply : replies_) {
      if (!reply.empty()) {
        text += text.empty() ? '[' : ',';
        text += reply;
      }
    }
    return text.empty() ? text : text + ']';
  }

 private:
  std::vector<std::string> replies_;  // at most limits.batch
  std::size_t missing_ = 1;           // the batch itself, while it is taken apart
};

}  // namespace rex::rpc
