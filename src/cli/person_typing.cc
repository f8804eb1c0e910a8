// What a person types (person.h), and the size of the terminal they type at.
#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "cli/person.h"

namespace rex::cli {

using nlohmann::json;

void Person::watch_size() {
  resized_.async_wait([self = shared_from_this()](const std::error_code& error, int) {
    if (!error) {
      self->fit();
      self->watch_size();
    }
  });
}

void Person::fit() {
  if (writes_) {
    const RawTerminal::Size size = RawTerminal::size();
    spawn(side_.executor(), resize(shared_from_this(), size.rows, size.cols), [](std::exception_ptr) {});
  }
}

Task<> Person::resize(std::shared_ptr<Person> self, int rows, int cols) {
  json params{{"session", self->session_}, {"rows", rows}, {"cols", cols}};
  co_await self->site_.call("session/resize", std::move(params));
}

Task<> Person::type(std::shared_ptr<Person> self) {
  char buffer[4096];
  std::size_t n = 0;
  do {
    n = co_await self->input_->read_some(buffer);
    for (TypedKeys::Part& part : self->keys_.feed(std::string_view(buffer, n))) {
      if (!part.text.empty()) {
        co_await self->type_text(std::move(part.text));
      }
      if (part.command) {
        co_await self->obey(*part.command);
      }
    }
  } while (n != 0 && !self->left_ && !self->ended_);
}

Task<> Person::obey(TypedKeys::Command command) {
  switch (command) {
    case TypedKeys::Command::detach:
      left_ = true;
      changed_.notify();
      break;
    case TypedKeys::Command::type:
    case TypedKeys::Command::take_over:
      if (!writes_) {
        terminal_.notice("typing into " + shown_name_ + "; Enter ~ w hands it back");
        co_await attach(true, command == TypedKeys::Command::take_over);
      }
      break;
    case TypedKeys::Command::watch:
      if (writes_ && !is_own_) {
        co_await attach(false, false);
        terminal_.notice("watching " + shown_name_);
      }
      break;
    case TypedKeys::Command::help: terminal_.notice(keys_help); break;
  }
}

Task<> Person::type_text(std::string text) {
  if (!writes_) {
    if (text.starts_with('\x1b')) {  // perhaps this terminal's answer to what the program asked its own
      co_return;
    }
    if (!std::exchange(hinted_, true)) {
      terminal_.notice("only watching: Enter ~ t to type");
    }
    terminal_.show("\a");
    co_return;
  }
  if (state_ == "ready") {
    TypedLine::Fed fed = line_.feed(text);
    terminal_.show(fed.echo);
    for (std::string& line : fed.lines) {
      if (line.find_first_not_of(" \t") != std::string::npos) {
        state_ = "running";  // until it is told: what is typed from here on is for the command
        spawn(side_.executor(), run_line(shared_from_this(), std::move(line)));
        co_return;
      }
    }
    if (fed.was_left || !fed.lines.empty()) {
      prompt_at_ = next_;
      prompt_if_due();
    }
    co_return;
  }
  if (!info_.at("tty").get<bool>()) {  // no terminal there that would make a line end of the key
    std::replace(text.begin(), text.end(), '\r', '\n');
  }
  const bool interrupts = text.find('\x03') != std::string::npos;
  const std::size_t size = text.size();
  json params{{"session", session_}, {"data", to_base64(text)}, {"encoding", "base64"}};
  bool all_taken = false;
  std::string problem;
  try {
    const json written = co_await site_.call("session/write", std::move(params));
    all_taken = written.at("accepted").get<std::size_t>() == size;
  } catch (const Error& error) {
    problem = error.message();
  }
  if (!problem.empty() && !ended_) {
    terminal_.notice(problem);
  }
  if (!all_taken && interrupts) {  // the program takes no input, and so not the key either
    json interrupt{{"session", session_}, {"graceMs", 0}};
    co_await site_.call("session/interrupt", std::move(interrupt));
  } else if (!all_taken) {
    terminal_.show("\a");
  }
}

Task<> Person::run_line(std::shared_ptr<Person> self, std::string line) {
  json params{{"session", self->session_}, {"command", std::move(line)}};
  std::string problem;
  try {
    co_await self->site_.call("session/run", std::move(params));
  } catch (const Error& error) {
    problem = error.message();
  }
  if (!problem.empty() && !self->left_ && !self->ended_ && !self->site_.client->is_closed()) {
    self->terminal_.notice(problem);
    self->state_ = "ready";
    self->prompt_at_ = self->next_;
    self->prompt_if_due();
  }
}

}  // namespace rex::cli
