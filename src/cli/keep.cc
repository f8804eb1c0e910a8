#include "cli/keep.h"

#include <fcntl.h>
#include <malloc.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "cli/server.h"
#include "shell/guardian.h"
#include "transports/unix.h"

namespace rex::cli {
namespace {

constexpr std::string_view ready = "ready\n";
constexpr std::size_t max_complaint = 4096;

// How long it may take from its start to listening, in seconds; then the kernel ends it, and whoever waits reads that.
constexpr unsigned start_patience = 10;

// How often it is looked whether a name is free that another process holds and does not listen at.
constexpr Milliseconds claim_pause{5};

// How long it lives without having been asked for its session.
constexpr Milliseconds first_request_patience{30'000};

// What its clients get to take the last answers.
constexpr Milliseconds farewell{1000};

/// Tells whoever started us, once.
void say(std::string_view what) {
  ::alarm(0);
  [[maybe_unused]] const ssize_t n = ::write(STDOUT_FILENO, what.data(), what.size());
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(null, fd);
  }
  ::close(null);
}

/// What we start gets the limit that our starter was given.
void set_open_files(rlim_t soft) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(soft, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

class Keeping {
 public:
  Keeping(Server& server, shell::Nursery& nursery, std::string socket,
          std::shared_ptr<transports::UnixListener> listener, transports::Claim claim)
      : server_(server),
        nursery_(nursery),
        socket_(std::move(socket)),
        listener_(std::move(listener)),
        claim_(std::move(claim)) {}

  Task<> run() {
    shell::Sessions& sessions = server_.sessions();
    sessions.when_empty([this] { end(); });
    const shell::SessionEvents::Listener jobs(sessions.events(),
                                              [this](const shell::SessionEvent&) { something_.notify(); });
    Waiter waiter(server_.loop().get_executor());
    waiter.subscribe(server_.changed());
    waiter.subscribe(something_);
    const TimePoint asked_by = Clock::now() + first_request_patience;
    while (listener_ && (sessions.is_empty() ? Clock::now() < asked_by : !is_outlived())) {
      co_await waiter.until(sessions.is_empty() ? asked_by : unattended_until_);
      if (!sessions.is_empty()) {
        nursery_.rest();  // this process has one session, whose program runs
      }
      give_memory_back();
    }
    end();
    co_await sessions.close_all_of(shell::nobody, shell::default_grace);
    co_await server_.until_answered(Clock::now() + farewell);
    server_.end();
  }

  /// The session has ended as it should. Its name is free from here on: whoever makes one of it anew gets another
  /// process.
  void end() {
    if (listener_) {  // else another process may have it by now
      methods::records_of_lasting().remove(socket_);
    }
    leave();
  }

  /// Told to go, as by a machine that shuts down: the session is lost.
  void leave() {
    if (listener_) {
      listener_->close();
      listener_.reset();
      claim_.reset();
      something_.notify();
    }
  }

 private:
  /// When the last client has left: what it took to serve it is half of the heap, and there may be many like us.
  void give_memory_back() {
    const bool was_attended = std::exchange(attended_, server_.has_clients());
    if (was_attended && !attended_) {
      malloc_trim(0);
    }
  }

  /// Whether nobody has been connected and nothing has run for the session's `ttlMs`; else sets when that will be.
  bool is_outlived() {
    std::optional<Milliseconds> ttl;
    if (!server_.has_clients()) {  // else nothing is looked up at each event of the session
      const shell::SessionInfo info = server_.sessions().list().front()->info();
      ttl = info.job ? std::nullopt : info.ttl;
    }
    if (!ttl) {
      unattended_until_ = never;
      return false;
    }
    if (unattended_until_ == never) {
      unattended_until_ = Clock::now() + *ttl;
    }
    return Clock::now() >= unattended_until_;
  }

  Server& server_;
  shell::Nursery& nursery_;
  std::string socket_;
  std::shared_ptr<transports::UnixListener> listener_;
  std::optional<transports::Claim> claim_;
  TimePoint unattended_until_ = never;
  bool attended_ = true;
  Event something_;
};

bool is_listening(const std::string& path) {
  Loop loop{1};
  try {
    transports::dial_unix(loop.get_executor(), path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Empty once another process listens there. Whoever has the claim meanwhile is about to, or only clears away what a
/// dead one left.
std::optional<transports::Claim> claim_name(const transports::PrivateDirectory& directory, const std::string& socket) {
  while (true) {
    std::optional<transports::Claim> claim = transports::Claim::on(directory, socket);
    if (is_listening(directory.path() + "/" + socket)) {  // also where somebody has cleared its lock away
      return std::nullopt;
    }
    if (claim) {
      return claim;
    }
    std::this_thread::sleep_for(claim_pause);
  }
}

int keep_here(const KeepOptions& options) {
  const auto directory = std::make_shared<transports::PrivateDirectory>(transports::lasting_directory());
  const std::string socket = methods::keeper_socket(options.session);
  malloc_trim(0);  // of what the command line took, all that we fork would have its share
  shell::Nursery nursery;
  std::optional<transports::Claim> claim = claim_name(*directory, socket);
  if (!claim) {  // somebody was faster: that one is as good
    say(ready);
    return 0;
  }
  Server server(nursery, options.journal_memory, true);
  const Executor executor = server.loop().get_executor();
  auto listener = std::make_shared<transports::UnixListener>(executor, directory, socket);
  server.listen(listener);
  Keeping keeping(server, nursery, socket, std::move(listener), std::move(*claim));
  asio::basic_signal_set<Executor> signals(executor, SIGTERM);
  signals.async_wait([&keeping](const std::error_code& error, int) {
    if (!error) {
      keeping.leave();
    }
  });
  spawn(executor, keeping.run());
  say(ready);
  server.run();
  return 0;
}

/// Runs the program again as the keeper of a session; what it says is read from `said`.
pid_t spawn_keeper(std::vector<std::string> argv, int said) {
  std::vector<char*> words;
  for (std::string& word : argv) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, said, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, "/proc/self/exe", &files, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    throw os_error("cannot start the process of a session by", failed, "/proc/self/exe");
  }
  return pid;
}

Task<> start_keeper(Executor executor, std::vector<std::string> argv) {
  Pipe pipe = make_pipe(O_NONBLOCK);
  const pid_t pid = spawn_keeper(std::move(argv), pipe.write.get());
  pipe.write.reset();
  AsyncFd said(executor, std::move(pipe.read));
  std::string text;
  bool open = true;
  while (open && text.find('\n') == std::string::npos && text.size() < max_complaint) {
    std::array<char, 256> buffer;
    const ssize_t n = ::read(said.fd(), buffer.data(), buffer.size());
    if (n > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      open = co_await said.readable();
    } else {
      open = false;
    }
  }
  ::waitpid(pid, nullptr, 0);  // it has left its child behind long since
  if (text != ready) {
    throw Error(Fault::StartFailed, "the process of the session " +
                                        (text.empty() ? "did not start" : "says: " + printable(text, max_complaint)));
  }
}

}  // namespace

int keep(const KeepOptions& options) {
  set_open_files(options.open_files);
  set_core_filter(options.core_filter);
  const pid_t child = ::fork();  // whoever started us waits for its own child only
  if (child != 0) {
    ::_exit(child < 0 ? 1 : 0);
  }
  ::alarm(start_patience);
  ::setsid();
  ::prctl(PR_SET_NAME, shell::keeper_name);
  ::prctl(PR_SET_CHILD_SUBREAPER,
          1);                  // the guardian stays below us when the nursery is gone: whoever spares us, spares it
  ::signal(SIGCHLD, SIG_IGN);  // and nobody waits for it
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  try {
    return keep_here(options);
  } catch (const std::exception& error) {
    say(std::string(error.what()) + "\n");
    return 1;
  }
}

methods::Keepers::Start make_keeper_starter(Executor executor, const shell::Nursery& nursery,
                                            std::size_t journal_memory) {
  std::vector<std::string> argv = {"rex-rpc",          "keep",
                                   "--open-files",     std::to_string(nursery.open_files()),
                                   "--journal-memory", std::to_string(journal_memory)};
  if (!nursery.core_filter().empty()) {
    argv.insert(argv.end(), {"--core-filter", nursery.core_filter()});
  }
  argv.emplace_back("--");
  return [executor, argv = std::move(argv)](std::string session) {
    std::vector<std::string> words = argv;
    words.push_back(std::move(session));
    return start_keeper(executor, std::move(words));
  };
}

}  // namespace rex::cli
