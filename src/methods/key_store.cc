#include "methods/key_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/own_file.h"
#include "files/tree.h"
#include "methods/keys.h"
#include "rpc/message.h"
#include "transports/unix.h"

namespace rex::methods {

using nlohmann::json;

namespace {

constexpr std::size_t digits_of_client = 32;
constexpr std::string_view acked_prefix = "acked-";
constexpr std::string_view seal_begin = R"(,"sha256":")";
constexpr std::string_view seal_end = "\"}\n";
constexpr std::size_t digits_of_seal = 64;

// How often it is looked whether another process has come to the end of a request.
constexpr Milliseconds look_again{20};

// For how long a worker tries to get the lock of a client's directory.
constexpr Milliseconds lock_patience{1000};

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Waits: it is held for a few reads and writes, but by a process that was stopped in the midst of them.
void lock(int fd, const std::string& path) {
  const int failed = lock_within(fd, lock_patience);
  if (failed == EWOULDBLOCK) {
    throw os_error("another process does not let go of", failed, path).retryable();
  }
  if (failed != 0) {
    throw os_error("cannot lock", failed, path);
  }
}

std::vector<std::filesystem::path> entries_of(const std::string& directory) {
  std::vector<std::filesystem::path> all;
  std::error_code failure;
  for (std::filesystem::directory_iterator each(directory, failure), end; !failure && each != end;
       each.increment(failure)) {
    all.push_back(each->path());
  }
  if (failure) {
    throw os_error("cannot list a directory", failure.value(), directory);
  }
  return all;
}

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) {
      throw os_error("cannot keep a key in", errno, path);
    }
    text.remove_prefix(n < 0 ? 0 : static_cast<std::size_t>(n));
  }
}

std::string read_all(int fd, const std::string& path) {
  std::string text;
  char buffer[16 << 10];
  while (true) {
    const ssize_t n = ::pread(fd, buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (n < 0 && errno != EINTR) {
      throw os_error("cannot read a key in", errno, path);
    }
    if (n == 0) {
      return text;
    }
    text.append(buffer, n < 0 ? 0 : static_cast<std::size_t>(n));
  }
}

/// One client's directory, locked. All of this blocks and runs on a worker.
class Folder {
 public:
  Folder(const std::string& directory, const std::string& client) : directory_(opened(directory, client)) {
    lock(directory_.fd(), directory_.path());
    ::futimens(directory_.fd(), nullptr);  // the client lives
    for (const std::filesystem::path& entry : entries_of(directory_.path())) {
      const std::string name = entry.filename();
      if (name.starts_with(acked_prefix)) {
        acked_ = std::max(acked_, number(std::string_view(name).substr(acked_prefix.size())).value_or(0));
      } else if (const std::optional<std::int64_t> seq = number(name)) {
        seqs_.insert(*seq);
      }
    }
  }

  [[nodiscard]] std::int64_t acked() const { return acked_; }
  [[nodiscard]] std::size_t kept() const { return seqs_.size(); }
  [[nodiscard]] const std::string& path() const { return directory_.path(); }

  /// The mark comes first: what it says is forgotten may be there yet.
  void acknowledge(std::int64_t upto) {
    const std::string mark = std::string(acked_prefix) + std::to_string(upto);
    if (upto > acked_ && acked_ == 0) {
      const Fd made(::openat(directory_.fd(), mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      if (!made) {
        throw os_error("cannot keep a key in", errno, path());
      }
    } else if (upto > acked_) {
      const std::string before = std::string(acked_prefix) + std::to_string(acked_);
      if (::renameat(directory_.fd(), before.c_str(), directory_.fd(), mark.c_str()) != 0) {
        throw os_error("cannot keep a key in", errno, path());
      }
    }
    acked_ = std::max(acked_, upto);
    while (!seqs_.empty() && *seqs_.begin() <= acked_) {
      forget(*seqs_.begin());
    }
  }

  void forget(std::int64_t seq) {
    ::unlinkat(directory_.fd(), std::to_string(seq).c_str(), 0);
    seqs_.erase(seq);
  }

  /// Empty where there is none.
  Fd open(std::int64_t seq) {
    Fd file(::openat(directory_.fd(), std::to_string(seq).c_str(), O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
    if (!file && errno != ENOENT) {
      throw os_error("cannot read a key in", errno, path());
    }
    return file;
  }

  /// Locked, and on the disk before anything is done: it is known even when the machine fails meanwhile.
  Fd make(std::int64_t seq, const std::string& first_line) {
    const std::string name = std::to_string(seq);
    Fd file(::openat(directory_.fd(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
    if (!file) {
      throw os_error("cannot keep a key in", errno, path());
    }
    try {
      lock(file.get(), path());
      write_all(file.get(), first_line, path());
      if (::fsync(file.get()) != 0 || ::fsync(directory_.fd()) != 0) {
        throw os_error("cannot keep a key in", errno, path());
      }
    } catch (...) {
      forget(seq);
      throw;
    }
    return file;
  }

 private:
  static transports::PrivateDirectory opened(const std::string& directory, const std::string& client) {
    if (directory.empty()) {
      throw Error(Fault::NotPermitted, "a key of this request would be kept in the home of its user, who has none");
    }
    files::make_parents(directory);
    const transports::PrivateDirectory all(directory);
    const std::string name = sha256_of(client).substr(0, digits_of_client);
    const bool is_new = !all.contains(name);
    if (is_new) {
      make_room(directory);
    }
    transports::PrivateDirectory own(directory + "/" + name);
    if (is_new && ::fsync(all.fd()) != 0) {
      throw os_error("cannot keep a key in", errno, directory);
    }
    return own;
  }

  /// Nothing is removed as long as there is room.
  static void make_room(const std::string& directory) {
    namespace fs = std::filesystem;
    const std::vector<fs::path> clients = entries_of(directory);
    if (clients.size() < max_stored_clients) {
      return;
    }
    const auto long_ago = fs::file_time_type::clock::now() - silence_of_an_ended_client;
    std::error_code ignored;
    const auto is_ended = [&](const fs::path& client) {
      const Fd own(::open(client.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      return own && ::flock(own.get(), LOCK_EX | LOCK_NB) == 0 && fs::last_write_time(client, ignored) < long_ago &&
             fs::remove_all(client, ignored) > 0;
    };
    const auto ended = static_cast<std::size_t>(std::count_if(clients.begin(), clients.end(), is_ended));
    if (clients.size() - ended >= max_stored_clients) {
      throw Error(Fault::LimitExceeded, "keys of " + std::to_string(clients.size()) + " clients are kept in " +
                                            printable(directory) + ": remove there what no client will ask for again")
          .with("limit", "keys")
          .with("value", static_cast<std::int64_t>(clients.size()) + 1)
          .with("max", static_cast<std::int64_t>(max_stored_clients));
    }
  }

  transports::PrivateDirectory directory_;
  std::int64_t acked_ = 0;
  std::set<std::int64_t> seqs_;
};

/// What is known of a key.
struct Elsewhere {};  // another process, or another call of this one, executes it
using Answer = std::variant<json, Error>;
using Known = std::variant<Elsewhere, Fd, Answer>;  // Fd: it is ours to execute, and this holds the lock

Error interrupted(const wire::Key& key) {
  return outcome_unknown(wire::UnknownReason::interrupted, "the process that began request " + std::to_string(key.seq) +
                                                               " of client " + printable(key.client) +
                                                               " ended on the way");
}

/// The answer's line with what shows that a bit of it, or of the first line, is another one by now.
std::string seal(const std::string& first_line, std::string answer) {
  const std::string digest = sha256_of(first_line + answer);
  answer.pop_back();  // its brace
  return answer + std::string(seal_begin) + digest + std::string(seal_end);
}

/// Whether both lines are as they were written. Without a seal they are an older program's, or of one that was ended.
bool is_whole(std::string_view text) {
  const std::size_t length = seal_begin.size() + digits_of_seal + seal_end.size();
  const std::size_t at = text.size() - std::min(text.size(), length);
  if (!text.substr(at).starts_with(seal_begin) || !text.ends_with(seal_end)) {
    return true;
  }
  return sha256_of(std::string(text.substr(0, at)) + "}") == text.substr(at + seal_begin.size(), digits_of_seal);
}

Known what_is_kept(Fd file, const wire::Key& key, const std::string& digest, const std::string& path) {
  const bool is_under_way = ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const std::string text = read_all(file.get(), path);
  if (!is_whole(text)) {
    throw outcome_unknown(wire::UnknownReason::damaged, "what was kept of request " + std::to_string(key.seq) +
                                                            " of client " + printable(key.client) +
                                                            " is not as it was written, in " + printable(path));
  }
  const std::size_t line_end = std::min(text.find('\n'), text.size());
  const json first = json::parse(text.substr(0, line_end), nullptr, false);
  if (!first.is_object() || !first.contains("boot") || !first.contains("digest")) {
    throw interrupted(key);
  }
  if (first["digest"] != digest) {
    throw key_conflict(key);
  }
  if (is_under_way) {
    return Elsewhere{};
  }
  if (first["boot"] != boot_id()) {
    throw outcome_unknown(wire::UnknownReason::reboot,
                          "request " + std::to_string(key.seq) + " of client " + printable(key.client) +
                              " began before this machine was started, or on another one with the same home");
  }
  rpc::Parsed parsed = rpc::parse_messages(std::string_view(text).substr(std::min(line_end + 1, text.size())), {});
  auto* const response = parsed.messages.empty() ? nullptr : std::get_if<rpc::Response>(&parsed.messages.front());
  if (response == nullptr || !response->well_formed) {
    throw interrupted(key);
  }
  if (response->error) {
    return Answer(std::move(*response->error));
  }
  try {
    return Answer(rpc::Result::written(std::move(response->result_text)).tree());
  } catch (const Error&) {
    throw interrupted(key);
  }
}

Known claim(const std::string& directory, const wire::Key& key, const std::string& digest) {
  require_acked_below(key);
  Folder folder(directory, key.client);
  folder.acknowledge(key.acked.value_or(0));
  if (key.seq <= folder.acked()) {
    throw forgotten(key, folder.acked());
  }
  if (Fd file = folder.open(key.seq)) {
    return what_is_kept(std::move(file), key, digest, folder.path());
  }
  if (folder.kept() >= static_cast<std::size_t>(wire::limits::keys)) {
    throw limit_exceeded("keys", static_cast<std::int64_t>(folder.kept()) + 1, wire::limits::keys);
  }
  return folder.make(key.seq, json{{"boot", boot_id()}, {"digest", digest}}.dump() + "\n");
}

/// The second line, without its end; empty for a failure of ours that says nothing.
std::string text_of(const json& answer, const std::exception_ptr& failure) {
  if (!failure) {
    return rpc::result_message("1", answer);
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return rpc::error_message("1", error);
  } catch (...) {
    return "";
  }
}

}  // namespace

std::string default_key_directory() {
  const std::string state = own_directory("XDG_STATE_HOME", ".local/state");
  return state.empty() ? "" : state + "/rex-rpc/keys";
}

Task<json> KeyStore::once(wire::Key key, std::string_view method, json params, Cancel& cancel,
                          std::function<Task<json>()> work) {
  std::string digest;
  Known known;
  auto look = [&] {
    if (digest.empty()) {
      digest = digest_of(method, std::move(params));
    }
    known = claim(directory_, key, digest);
  };
  Waiter waiter(executor_);
  waiter.subscribe(cancel.changed());
  while (std::holds_alternative<Elsewhere>(known)) {
    co_await workers_.run(look);
    if (std::holds_alternative<Elsewhere>(known) && cancel) {
      throw not_awaited();
    }
    if (std::holds_alternative<Elsewhere>(known)) {
      co_await waiter.until(Clock::now() + look_again);
    }
  }
  if (auto* const answer = std::get_if<Answer>(&known)) {
    if (auto* const error = std::get_if<Error>(answer)) {
      throw std::move(*error);
    }
    co_return std::move(std::get<json>(*answer));
  }
  json answer;
  std::exception_ptr failure;
  try {
    answer = co_await work();
  } catch (...) {
    failure = std::current_exception();
  }
  auto keep = [&] {
    const Fd file = std::move(std::get<Fd>(known));
    if (failure && !has_effect(failure)) {
      Folder(directory_, key.client).forget(key.seq);
    } else if (std::string text = text_of(answer, failure); !text.empty()) {
      write_all(file.get(), seal(read_all(file.get(), directory_), std::move(text)), directory_);
    }
  };
  try {
    co_await workers_.run(keep);
  } catch (const std::exception&) {  // a full disk: whoever asks again is told that nobody knows
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  co_return answer;
}

}  // namespace rex::methods
