#include "cli/person.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "transports/stdio.h"

namespace rex::cli {

using nlohmann::json;

Person::Person(ClientSide& side, Site site, json info, std::string shown_name, bool is_own)
    : side_(side),
      site_(std::move(site)),
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
  state_ = info_.value("state", "");
  cwd_ = info_.value("cwd", "");
  next_ = is_own_ ? 0 : info_.at("next").get<std::int64_t>();
  if (!is_own_) {
    terminal_.notice((takeover ? "typing into " : "watching ") + shown_name_ + " · " + keys_help);
  }
  if (!is_own_ && info_.at("tty").get<bool>()) {
    co_await show_screen();
  }
  co_await attach(is_own_ || takeover, takeover);
  watch_size();
  spawn(side_.executor(), type(self), [self](std::exception_ptr) {
    self->left_ = true;
    self->changed_.notify();
  });
  Waiter waiter(side_.executor());
  waiter.subscribe(changed_);
  waiter.subscribe(site_.client->closed());
  while (!left_ && !ended_ && lost_.empty() && !site_.client->is_closed()) {
    co_await waiter.until(never);
  }
  if (!ended_ && !lost_.empty()) {
    terminal_.notice(lost_);
    co_return 1;
  }
  if (!ended_ && !site_.client->is_closed() && !is_own_) {
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

/// What the session's terminal shows when we come, as much of it as this one has room for.
Task<> Person::show_screen() {
  json params{{"session", session_}, {"format", "ansi"}};
  json screen;
  try {
    screen = co_await site_.call("session/screen", std::move(params));
  } catch (const Error&) {  // too large a screen to keep, or none: what comes from now on is shown all the same
    co_return;
  }
  const auto room = static_cast<std::size_t>(RawTerminal::size().rows);
  const auto row = screen.at("cursor").at("row").get<std::size_t>();
  const auto col = screen.at("cursor").at("col").get<std::size_t>();
  const json& lines = screen.at("lines");
  std::size_t end = lines.size();
  while (end > row + 1 && lines[end - 1].get<std::string>().empty()) {
    --end;
  }
  const std::size_t begin = end - std::min(end, room);
  std::string shown = screen.at("alternate").get<bool>() ? "\x1b[?1049h\x1b[H" : "";
  for (std::size_t i = begin; i < end; ++i) {
    const auto line = lines[i].get<std::string>();
    shown += (i == begin ? "" : "\r\n") + line + (line.find('\x1b') != std::string::npos ? "\x1b[m" : "");
  }
  if (row >= begin && row < end) {
    const std::size_t below = end - 1 - row;
    shown += below != 0 || !lines[row].get<std::string>().empty() ? "\r" : "";
    shown += below != 0 ? "\x1b[" + std::to_string(below) + "A" : "";
    shown += col != 0 ? "\x1b[" + std::to_string(col) + "C" : "";
  }
  shown += screen.at("cursor").at("visible").get<bool>() ? "" : "\x1b[?25l";
  terminal_.show(shown);
  next_ = screen.at("next");
}

/// Of a program that had ended before we came.
Task<> Person::ask_for_exit() {
  json params{{"session", session_}, {"any", {{{"exit", true}}}}, {"waitMs", 0}};
  try {
    const json waited = co_await site_.call("session/wait", std::move(params));
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
    co_await site_.call("session/detach", std::move(params));
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
      attached = co_await site_.call("session/attach", params);
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
  if (method == "host/status") {
    hear_status(params);
    return;
  }
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
    terminal_.show(is_text ? data : from_base64(data).value_or(""));
    next_ = params.at("next");
    site_.client->notify("session/ack", {{"attachment", params.at("attachment")}, {"offset", next_}});
    prompt_if_due();
    ended_ = ended_ || params.value("eof", false);
    changed_.notify();
  }
}

/// A session of a host is gone with any of the hosts on the way there.
void Person::hear_status(const json& params) {
  const std::string host = params.value("host", "");
  const std::string state = params.value("state", "");
  if ((state == "lost" || state == "closed") && (site_.host == host || site_.host.starts_with(host + "/"))) {
    lost_ = "host " + printable(host) + " is " + state + ": " + printable(params.value("detail", ""), 1024);
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
