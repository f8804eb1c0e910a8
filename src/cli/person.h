// One person's terminal on one session: what the session writes is shown, what the person types goes into it while they
// hold the lease. Speaks to the instance as any client does.
#pragma once

#include <asio/signal_set.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/client.h"
#include "cli/site.h"
#include "cli/terminal.h"
#include "transports/transport.h"

namespace rex::cli {

/// Our own commands among the keys, for a notice.
inline constexpr const char* keys_help =
    "Enter ~ .  leave · Enter ~ t  type · Enter ~ T  type, whoever does now · Enter ~ w  only watch · Enter ~ ~  a ~";

/// Its tasks hold it; it ends when the person leaves, with the session, or with the connection.
class Person : public std::enable_shared_from_this<Person> {
 public:
  /// `info` is the session's; `shown_name` is what the person calls it.
  Person(ClientSide& side, Site site, nlohmann::json info, std::string shown_name, bool is_own);

  /// To the end; returns the exit code of the command. A session of the person's own is typed into from the beginning.
  Task<int> attend(bool takeover);

 private:
  static Task<> type(std::shared_ptr<Person> self);
  static Task<> run_line(std::shared_ptr<Person> self, std::string line);
  static Task<> resize(std::shared_ptr<Person> self, int rows, int cols);
  Task<> attach(bool writes, bool takeover);
  Task<> show_screen();
  Task<> ask_for_exit();
  Task<> obey(TypedKeys::Command command);
  Task<> type_text(std::string text);
  void hear(const std::string& method, const nlohmann::json& params);
  void hear_event(const nlohmann::json& params);
  void hear_status(const nlohmann::json& params);
  void prompt_if_due();
  void watch_size();
  void fit();
  int exit_code() const;

  ClientSide& side_;
  Site site_;
  std::string shown_name_;
  std::string session_;
  nlohmann::json info_;  // as it was when we came
  bool is_own_;
  RawTerminal terminal_;
  std::unique_ptr<Transport> input_;
  asio::basic_signal_set<Executor> resized_;
  TypedKeys keys_;
  TypedLine line_;
  std::string attachment_;
  std::int64_t next_ = 0;        // behind what was shown
  std::int64_t prompt_at_ = -1;  // our own prompt is due when so much has been shown; negative: it is not
  std::string state_;
  std::string cwd_;
  bool writes_ = false;
  bool hinted_ = false;
  bool left_ = false;   // by the person
  bool ended_ = false;  // the session
  std::string lost_;    // why there is no way to it any more
  std::optional<int> exit_code_;
  std::string exit_signal_;
  Event changed_;
};

}  // namespace rex::cli
