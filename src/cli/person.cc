#include "cli/person.h"

#include <pwd.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "transports/stdio.h"

namespace rex::cli {

using nlohmann::json;

namespace {

/// What a person is called to the others.
std::string own_name() {
  const passwd* const user = getpwuid(getuid());
  const char* const terminal = ttyname(STDIN_FILENO);
  return std::string(user != nullptr ? user->pw_name : "somebody") + " on " +
         (terminal != nullptr ? terminal : "a terminal");
}

}  // namespace

Person::Person(ClientSide& side, Client client, json info, std::string shown_name, bool is_own)
    : side_(side),
      client_(std::move(client)),
      shown_name_(std::move(shown_name)),
      session_(info.at("session").get<std::string>()),
      info_(std::move(info)),
      is_own_(is_own),
      input_(transports::standard_input(side.executor())),
      resized_(side.executor(), SIGWINCH) {}

Task<int> Person::attend(bool takeover) {
  const std::shared_ptr<Person> self = shared_from_this();
  struct Guard {
    ~Guard() {
      person.terminal_.restore();
      person.input_->close();
      person.resized_.cancel();
      person.side_.hear(nullptr);
    }
    Person& person;
  };
  const Guard guard{*this};
  side_.hear([raw = this](const std::string& method, const json& params) { raw->hear(method, params); });
  json greeting{{"clientInfo", {{"name", own_name()}}}};
  co_await client_->call("initialize", std::move(greeting));
  state_ = info_.value("state", "");
  cwd_ = info_.value("cwd", "");
  next_ = is_own_ ? 0 : info_.at("next").get<std::int64_t>();
  if (!is_own_) {
    terminal_.notice((takeover ? "typing into " : "watching ") + shown_name_ + " · " + keys_help);
  }
  co_await attach(is_own_ || takeover, takeover);
  watch_size();
  spawn(side_.executor(), type(self), [self](std::exception_ptr) {
    self->left_ = true;
    self->changed_.notify();
  });
  Waiter waiter(side_.executor());
  waiter.subscribe(changed_);
  waiter.subscribe(client_->closed());
  while (!left_ && !ended_ && !client_->is_closed()) {
    co_await waiter.until(never);
  }
  if (!ended_ && !client_->is_closed() && !is_own_) {
    co_await attach(false, false);  // which gives the size back
    terminal_.notice("left " + shown_name_ + ", which goes on");
  } else if (!ended_ && !left_) {
    terminal_.notice("the instance of " + shown_name_ + " has ended");
    co_return 1;
  }
  if (ended_ && !exit_code_ && exit_signal_.empty()) {
    co_await ask_for_exit();
  }
  co_return ended_ ? exit_code() : 0;
}

/// Of a program that had ended before we came.
Task<> Person::ask_for_exit() {
  json params{{"session", session_}, {"any", {{{"exit", true}}}}, {"waitMs", 0}};
  try {
    const json waited = co_await client_->call("session/wait", std::move(params));
    const json result = waited.value("result", json::object());
    exit_code_ =
        result.value("exitCode", json()).is_number() ? std::optional(result["exitCode"].get<int>()) : exit_code_;
    exit_signal_ = result.value("signal", json()).is_string() ? result["signal"].get<std::string>() : "";
  } catch (const Error&) {  // it was closed, and nothing is known of it any more
  }
}

int Person::exit_code() const {
  if (!exit_signal_.empty()) {
    for (int number = 1; number < NSIG; ++number) {
      if (const char* const name = sigabbrev_np(number); name != nullptr && exit_signal_ == name) {
        return 128 + number;
      }
    }
    return 1;
  }
  return exit_code_.value_or(0);
}

/// Attaches where the last attachment stopped. A writer has the session in the size of this terminal; the size it had
/// before comes back with the end of that.
Task<> Person::attach(bool writes, bool takeover) {
  if (!attachment_.empty()) {
    json params{{"attachment", std::exchange(attachment_, {})}};
    co_await client_->call("session/detach", std::move(params));
  }
  if (std::exchange(writes_, false) && !writes && info_.at("rows").is_number()) {
    co_await resize(shared_from_this(), info_["rows"], info_["cols"]);
  }
  if (left_) {
    co_return;
  }
  json params{
      {"session", session_}, {"offset", next_}, {"role", writes ? "writer" : "observer"}, {"newline", "terminal"}};
  if (takeover) {
    params["takeover"] = true;
  }
  std::string refused;
  json attached;
  for (int tries = 0; attached.is_null(); ++tries) {
    try {
      attached = co_await client_->call("session/attach", params);
    } catch (const Error& error) {
      if (tries == 2 || (error.fault() != Fault::NotWriter && error.fault() != Fault::OffsetGone)) {
        throw;
      }
      if (error.fault() == Fault::OffsetGone) {
        params.erase("offset");
      } else {
        refused = error.message();
        params["role"] = "observer";
      }
    }
  }
  attachment_ = attached.at("attachment");
  state_ = attached.at("info").at("state");
  writes_ = params["role"] == "writer";
  if (!refused.empty()) {
    terminal_.notice(refused + "; Enter ~ T takes it");
  }
  if (writes_) {
    fit();
    prompt_at_ = state_ == "ready" ? next_ : -1;
    prompt_if_due();
  }
}

void Person::hear(const std::string& method, const json& params) {
  if (params.value("session", "") != session_) {
    return;
  }
  if (method == "session/event") {
    hear_event(params);
  } else if (method == "session/output") {
    const bool is_text = params.at("encoding") == "utf-8";
    const auto data = params.at("data").get<std::string>();
    if (params.contains("gap")) {
      const std::int64_t lost = params["gap"]["to"].get<std::int64_t>() - params["gap"]["from"].get<std::int64_t>();
      terminal_.notice(std::to_string(lost) + " bytes were lost here");
    }
    const std::string bytes = is_text ? data : from_base64(data).value_or("");
    terminal_.show(bytes);
    next_ = params.at("next");
    client_->notify("session/ack", {{"attachment", params.at("attachment")}, {"offset", next_}});
    prompt_if_due();
    ended_ = ended_ || params.value("eof", false);
    changed_.notify();
  }
}

void Person::hear_event(const json& params) {
  const auto event = params.at("event").get<std::string>();
  state_ = params.at("state");
  if (event == "cwd") {
    cwd_ = params.value("cwd", cwd_);
  } else if (event == "shellExited") {
    exit_code_ = params.contains("exitCode") ? std::optional(params["exitCode"].get<int>()) : std::nullopt;
    exit_signal_ = params.value("signal", "");
  } else if (event == "writerChanged" && params.value("attachment", "") == attachment_) {
    const std::string writer = params.value("writer", "");
    if (writes_ && writer != own_name()) {
      writes_ = false;
      terminal_.notice(printable(writer) + " has taken over; watching");
    }
  } else if (event == "stateChanged" && state_ == "ready" && writes_) {
    prompt_at_ = params.at("offset");
    prompt_if_due();
  }
}

/// An agent's shell has no prompt and reads no lines from its terminal: at its prompt, lines are typed to us.
void Person::prompt_if_due() {
  if (prompt_at_ >= 0 && next_ >= prompt_at_ && writes_ && state_ == "ready") {
    prompt_at_ = -1;
    terminal_.show((terminal_.at_line_start() ? "" : "\r\n") + printable(cwd_) + "$ " + line_.text());
  }
}

}  // namespace rex::cli
