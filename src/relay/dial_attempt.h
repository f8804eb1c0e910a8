// The attempt to reach a host, as the client whose host it is sees it: told of each phase, and asked each question
// where a request of its own is what wants it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "relay/dial.h"
#include "rpc/connection.h"

namespace rex::relay {

/// Whether a client that has not asked for it is told of a dial: one that does not read is spared it.
bool takes_news(const rpc::Connection& client);

/// Stands in `siblings`, its client's attempts, for as long as it lives.
class DialAttempt : public Attempt {
 public:
  /// `token` is the request's progressToken, or null. `unasked`: no request wants it, and nobody is asked anything.
  DialAttempt(std::shared_ptr<std::vector<DialAttempt*>> siblings, std::string name, nlohmann::json token,
              rpc::Call& call, bool unasked);
  ~DialAttempt() override;
  DialAttempt(const DialAttempt&) = delete;
  DialAttempt& operator=(const DialAttempt&) = delete;

  void phase(std::string_view phase, std::string_view detail) override;
  Task<std::string> ask(Prompt prompt) override;
  Cancel& cancel() override { return call_.cancel(); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::shared_ptr<std::vector<DialAttempt*>> siblings_;
  std::string name_;
  nlohmann::json token_;
  rpc::Call& call_;
  bool unasked_;
  std::size_t prompts_ = 0;
};

}  // namespace rex::relay
