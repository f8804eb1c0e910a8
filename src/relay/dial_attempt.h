// The attempt to reach a host, as the client whose request it is sees it: told of each phase, asked each question.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "relay/dial.h"
#include "rpc/connection.h"

namespace rex::relay {

/// Stands in `siblings`, its client's attempts, for as long as it lives.
class DialAttempt : public Attempt {
 public:
  /// `token` is the request's progressToken, or null.
  DialAttempt(std::vector<DialAttempt*>& siblings, std::string name, nlohmann::json token, rpc::Call& call);
  ~DialAttempt() override;
  DialAttempt(const DialAttempt&) = delete;
  DialAttempt& operator=(const DialAttempt&) = delete;

  void phase(std::string_view phase, std::string_view detail) override;
  Task<std::string> ask(Prompt prompt) override;
  Cancel& cancel() override { return call_.cancel(); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::vector<DialAttempt*>& siblings_;
  std::string name_;
  nlohmann::json token_;
  rpc::Call& call_;
  std::size_t prompts_ = 0;
};

}  // namespace rex::relay
