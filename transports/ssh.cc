#include "transports/ssh.h"

#include <sys/socket.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/secret.h"
#include "transports/libssh.h"
#include "transports/ssh_session.h"
#include "transports/ssh_stream.h"
#include "transports/ssh_talk.h"

namespace rex::transports {
namespace {

constexpr std::size_t max_name = 255;

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

/// What a shell could take for more than a name is in no name: configurations hand it to programs (`%h`, `%r`).
bool is_name(std::string_view text, std::string_view forbidden) {
  return text.size() <= max_name && !text.starts_with('-') && !has_control(text) &&
         text.find_first_of(forbidden) == std::string_view::npos;
}

void check(const SshTarget& target) {
  const bool ascii = std::all_of(target.host.begin(), target.host.end(), [](unsigned char c) { return c < 0x80; });
  if (target.host.empty() || !ascii || !is_name(target.host, " '\"`$\\;&<>|(){}[]!*?,@/")) {
    throw invalid_params("host", "is no name or address of a host: " + printable(target.host));
  }
  if (!is_name(target.user, " '\"`$;&<>|(){}") || target.user.ends_with('\\')) {
    throw invalid_params("user", "is no name of a user: " + printable(target.user));
  }
  if (target.port < 0 || target.port > 65535) {
    throw invalid_params("port", "must be 1 to 65535");
  }
  if (target.command.empty() || target.command.find('\0') != std::string::npos) {
    throw invalid_params("command", "must not be empty or have a NUL");
  }
}

#ifndef REX_WITHOUT_LIBSSH

/// The loop's side of a thread. Whoever destroys it waits for the thread: a moment, unless it waits for a disk.
class Line {
 public:
  Line(Executor executor, SshTarget target) : Line(executor, std::move(target), make_ssh_talk()) {}
  ~Line() {
    hang_up();
    join();
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void hang_up() { ::shutdown(talk_.fd(), SHUT_WR); }

  /// The next message; nullopt when the thread has ended.
  Task<std::optional<SshMessage>> next() {
    co_await talk_.readable();
    co_return receive_message(talk_.fd());
  }

  void answer(SshMessage message) {
    send_message(talk_.fd(), message);
    for (std::string& word : message.words) {
      wipe(word);
    }
  }

  /// Once `open` has been said, which is the thread's last word.
  std::unique_ptr<SshRoute> take_route() {
    join();
    return std::move(route_);
  }

 private:
  Line(Executor executor, SshTarget target, SshTalk talk)
      : talk_(executor, std::move(talk.loop)),
        thread_([job = SshJob{std::move(target), std::move(talk.thread)}, route = route_.get()] {
          run_ssh(job, *route);
        }) {}

  void join() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  AsyncFd talk_;
  std::unique_ptr<SshRoute> route_ = std::make_unique<SshRoute>();
  std::thread thread_;
};

Task<> ask(Line* line, const SshAttempt* attempt, SshMessage message) {
  SshQuestion question{message.words.at(0), message.words.at(1), !message.words.at(2).empty()};
  SshMessage reply{SshMessage::Kind::answer, {}};
  try {
    reply.words.push_back(co_await attempt->ask(std::move(question)));
  } catch (const Error& error) {
    reply = {SshMessage::Kind::no_answer, {error.message()}};
  }
  line->answer(std::move(reply));
}

#endif

}  // namespace

#ifdef REX_WITHOUT_LIBSSH

std::string why_no_libssh() { return "this build is without libssh"; }

Task<SshReached> dial_ssh(Executor, SshTarget target, SshAttempt) {
  SshReached reached;
  reached.argv = user_ssh_argv(target);
  reached.took = "the user's own ssh: " + why_no_libssh();
  co_return reached;
}

#else

std::string why_no_libssh() { return Libssh::missing(); }

Task<SshReached> dial_ssh(Executor executor, SshTarget target, SshAttempt attempt) {
  check(target);
  Line line(executor, target);
  const Cancel::Listener listener(attempt.cancel, [&line] { line.hang_up(); });
  SshReached reached;
  while (auto message = co_await line.next()) {
    switch (message->kind) {
      case SshMessage::Kind::phase: attempt.phase(message->words.at(0), message->words.at(1)); break;
      case SshMessage::Kind::question: co_await ask(&line, &attempt, std::move(*message)); break;
      case SshMessage::Kind::failed: throw error_of(*message);
      case SshMessage::Kind::own_ssh:
        reached.argv = user_ssh_argv(target);
        reached.took = "the user's own ssh: " + message->words.at(0);
        co_return reached;
      case SshMessage::Kind::open:
        reached.took = message->words.at(0);
        open_ssh_stream(executor, line.take_route(), reached);
        co_return reached;
      default: break;
    }
  }
  throw Error(Fault::InternalError, "an SSH connection ended without a word");
}

#endif

std::vector<std::string> user_ssh_argv(const SshTarget& target) {
  check(target);
  std::vector<std::string> argv = {"ssh", "-T", "-x"};
  for (const char* const option : {"BatchMode=yes", "RemoteCommand=none", "ClearAllForwardings=yes", "ControlMaster=no",
                                   "ControlPath=none", "PermitLocalCommand=no", "LogLevel=ERROR"}) {
    argv.insert(argv.end(), {"-o", option});
  }
  if (!target.user.empty()) {
    argv.insert(argv.end(), {"-l", target.user});
  }
  if (target.port != 0) {
    argv.insert(argv.end(), {"-p", std::to_string(target.port)});
  }
  argv.insert(argv.end(), {"--", target.host, target.command});
  return argv;
}

}  // namespace rex::transports
