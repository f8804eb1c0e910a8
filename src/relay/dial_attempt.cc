#include "relay/dial_attempt.h"

#include <utility>

#include "base/error.h"
#include "relay/channel.h"
#include "relay/hosts.h"

namespace rex::relay {

using nlohmann::json;

namespace {

constexpr std::size_t max_prompt_bytes = 4096;

}  // namespace

bool takes_news(const rpc::Connection& client) { return client.unsent_bytes() <= client.limits().onward_bytes; }

DialAttempt::DialAttempt(std::shared_ptr<std::vector<DialAttempt*>> siblings, std::string name, json token,
                         rpc::Call& call, bool unasked)
    : siblings_(std::move(siblings)), name_(std::move(name)), token_(std::move(token)), call_(call), unasked_(unasked) {
  siblings_->push_back(this);
}

DialAttempt::~DialAttempt() { std::erase(*siblings_, this); }

void DialAttempt::phase(std::string_view phase, std::string_view detail) {
  if (is_unnamed(name_) || (unasked_ && !takes_news(*call_.connection()))) {
    return;
  }
  json status{{"host", name_}, {"state", phase == "install" ? "installing" : "connecting"}, {"phase", phase}};
  if (!detail.empty()) {
    status["detail"] = printable(detail, max_prompt_bytes);
  }
  call_.connection()->notify("host/status", status);
  if (!token_.is_null()) {
    status.erase("host");
    call_.progress(token_, status);
  }
}

Task<std::string> DialAttempt::ask(Prompt prompt) {
  if (unasked_) {
    throw host_unreachable("auth", "there is a question (" + printable(prompt.text) +
                                       "), and a lost host is dialled again without any; host/connect asks it");
  }
  if (!call_.connection()->peer_prompts()) {
    throw host_unreachable("auth", "there is a question (" + printable(prompt.text) +
                                       ") and nobody to ask: the client has not announced capabilities.prompt");
  }
  if (++prompts_ > max_prompts) {
    throw host_unreachable("auth", "more than " + std::to_string(max_prompts) + " questions");
  }
  json params{{"host", name_},
              {"kind", prompt.kind},
              {"text", printable(prompt.text, max_prompt_bytes)},
              {"secret", prompt.secret}};
  const json answer = co_await call_.connection()->call("host/prompt", std::move(params), &call_.cancel());
  const auto text = answer.is_object() ? answer.find("answer") : answer.end();
  if (text == answer.end() || !text->is_string()) {
    throw host_unreachable("auth", "the question was not answered");
  }
  co_return text->get<std::string>();
}

}  // namespace rex::relay
