#include "cli/prompt.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/secret.h"

namespace rex::cli {

using nlohmann::json;

namespace {

constexpr std::size_t max_answer_bytes = 4096;

Fd open_terminal() { return Fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)); }

/// A terminal that shows nothing of what is typed, until this is destroyed; `fd` may be closed before.
class Silence {
 public:
  explicit Silence(int fd, bool wanted)
      : fd_(::fcntl(fd, F_DUPFD_CLOEXEC, 0)), wanted_(wanted && ::tcgetattr(fd_.get(), &before_) == 0) {
    if (wanted_) {
      termios silent = before_;
      silent.c_lflag = (silent.c_lflag & ~static_cast<tcflag_t>(ECHO)) | ICANON | ISIG | ECHONL;
      ::tcsetattr(fd_.get(), TCSAFLUSH, &silent);  // what was typed before the question is no answer to it
    }
  }
  ~Silence() {
    if (wanted_) {
      ::tcsetattr(fd_.get(), TCSANOW, &before_);
    }
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  Fd fd_;
  termios before_{};
  bool wanted_;
};

std::string text_of(const json& params, const char* member) {
  const auto found = params.find(member);
  return found != params.end() && found->is_string() ? printable(found->get<std::string>(), 4096) : "";
}

std::string question(const json& params) {
  const std::string kind = text_of(params, "kind");
  const std::string what = kind == "hostKey" ? "whether its key is right"
                           : kind == "otp"   ? "a one-time code"
                                             : "a " + kind;
  return "rex-rpc: host " + text_of(params, "host") + " asks for " + what + ". It says:\n  " + text_of(params, "text") +
         "\n" + (params.value("secret", json()) == false ? "Answer: " : "Answer (not shown): ");
}

}  // namespace

bool has_person() { return static_cast<bool>(open_terminal()); }

Task<json> ask_person(Executor executor, json params, Cancel& cancel) {
  const auto no_answer = [] { return Error(Fault::RequestCancelled, "nobody has answered"); };
  if (!params.is_object()) {
    throw invalid_params("", "an object");
  }
  Fd opened = open_terminal();
  if (!opened) {
    throw Error(Fault::MethodNotFound, "there is nobody at a terminal to ask");
  }
  AsyncFd terminal(executor, std::move(opened));
  const Silence silence(terminal.fd(), params.value("secret", json()) != false);
  write_all(terminal.fd(), question(params), "cannot ask at the terminal");
  const Cancel::Listener give_up(cancel, [&terminal] { terminal.close(); });
  std::string answer;
  const Wiper wiper(&answer);
  answer.reserve(max_answer_bytes);
  while (!answer.ends_with('\n')) {
    if (!co_await terminal.readable()) {
      throw no_answer();
    }
    char piece[256];
    const ssize_t n = ::read(terminal.fd(), piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      continue;
    }
    if (n <= 0 || answer.size() + static_cast<std::size_t>(n) > max_answer_bytes) {
      throw no_answer();
    }
    answer.append(piece, static_cast<std::size_t>(n));
    ::explicit_bzero(piece, sizeof piece);
  }
  answer.pop_back();
  if (!is_utf8(answer)) {  // the wire takes no other
    throw no_answer();
  }
  json result{{"answer", answer}};
  co_return result;
}

}  // namespace rex::cli
