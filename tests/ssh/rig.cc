#include "ssh/rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rex::test {
namespace {

pid_t start(const std::vector<std::string>& argv, int in, int out, const std::string& err, char* const* environment) {
  char env[] = "/usr/bin/env";  // finds the program
  std::vector<char*> words = {env};
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in, 0);
  posix_spawn_file_actions_adddup2(&files, out, 1);
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, words[0], &files, &attributes, words.data(), environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? pid : -1;
}

/// The children of a process, and theirs: an sshd gives its session a process group of its own.
void signal_tree(pid_t pid, int number) {
  std::ifstream children("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  for (pid_t child = 0; children >> child;) {
    signal_tree(child, number);
  }
  ::kill(pid, number);
}

// bash reads ~/.bashrc for a command over ssh unless it is a shell in a shell. What developers have there is not what
// is tested, and some of it must not be killed in its midst, as these servers are.
const std::string no_startup_files = "SetEnv SHLVL=5\n";

const std::string path_before = std::getenv("PATH");

}  // namespace

std::string output_of(const std::vector<std::string>& argv, const std::string& input) {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  const pid_t pid = start(argv, in.read.get(), out.write.get(), "/dev/null", environ);
  REQUIRE(pid > 0);
  in.read.reset();
  out.write.reset();
  write_all(in.write.get(), input, "a test's input");
  in.write.reset();
  std::string all;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(out.read.get(), buffer, sizeof buffer)) > 0;) {
    all.append(buffer, static_cast<std::size_t>(n));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  INFO(argv[0]);
  REQUIRE(status == 0);
  return all;
}

Folder::Folder() {
  char name[] = "/tmp/rex-ssh-XXXXXX";
  path_ = ::mkdtemp(name);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, const std::string& text, int mode) const {
  std::ofstream(path(name)) << text;
  ::chmod(path(name).c_str(), static_cast<mode_t>(mode));
  return path(name);
}

std::string Folder::read(const std::string& name) const {
  std::stringstream text;
  text << std::ifstream(path(name)).rdbuf();
  return text.str();
}

std::string Folder::key(const std::string& name, const std::string& passphrase, const std::string& kind) const {
  output_of({"ssh-keygen", "-q", "-a", "1", "-t", kind, "-N", passphrase, "-C", name, "-f", path(name)});
  return path(name);
}

Server::Server(std::vector<std::string> argv, std::string log)
    : argv_(std::move(argv)), log_(std::move(log)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener_.get(), generic, size) == 0);
  REQUIRE(::listen(listener_.get(), 16) == 0);
  ::getsockname(listener_.get(), generic, &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { accept_all(); });
}

Server::~Server() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
  for (const auto& group : groups_) {
    if (group > 0) {
      signal_tree(group, SIGKILL);
      ::waitpid(group, nullptr, 0);
    }
  }
}

void Server::signal(int number) {
  for (const auto& group : groups_) {
    if (group > 0) {
      signal_tree(group, number);
    }
  }
}

void Server::accept_all() {
  // Not ours, which tests change while this thread runs.
  char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  char* const environment[] = {path, nullptr};
  for (;;) {
    const Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) {
      return;
    }
    const int number = connections_++;
    if (number < 16) {
      groups_[number] = start(argv_, connection.get(), connection.get(), log_, environment);
    }
  }
}

World::World(const std::string& sshd_lines, const std::string& ssh_lines) : key(folder.key("id")) {
  ::signal(SIGPIPE, SIG_IGN);
  std::filesystem::create_directories("/run/sshd");
  folder.write("authorized_keys", folder.read("id.pub"));
  server = sshd("server", sshd_lines);
  // Whoever asks for the user's ssh gets one with this configuration instead of the user's own.
  std::filesystem::create_directory(folder.path("bin"));
  folder.write("bin/ssh", "#!/bin/sh\nexec /usr/bin/ssh -F " + folder.path("config") + " \"$@\"\n", 0700);
  ::setenv("PATH", (folder.path("bin") + ":" + path_before).c_str(), 1);
  ::unsetenv("SSH_AUTH_SOCK");
  know(known_name(), "host_server.pub");
  configure(host("server", *server, ssh_lines));
}

World::~World() { ::setenv("PATH", path_before.c_str(), 1); }

std::unique_ptr<Server> World::sshd(const std::string& name, const std::string& lines) {
  const std::string host_key = folder.key("host_" + name);
  const std::string config = folder.write(
      "sshd_" + name, lines + "\nHostKey " + host_key + "\nAuthorizedKeysFile " + folder.path("authorized_keys") +
                          "\nStrictModes no\nUsePAM no\n" +
                          "PasswordAuthentication no\nPermitRootLogin yes\nLogLevel VERBOSE\n" + no_startup_files);
  return std::make_unique<Server>(
      std::vector<std::string>{"/usr/sbin/sshd", "-i", "-E", folder.path("log_" + name), "-f", config},
      folder.path("log_" + name));
}

std::string World::host(const std::string& name, const Server& to, const std::string& lines) const {
  return "Host " + name + "\n" + lines + "\nHostName 127.0.0.1\nPort " + std::to_string(to.port()) + "\n";
}

void World::configure(const std::string& text) const {
  folder.write("config", text + "\nHost *\nIdentityFile " + key + "\nUserKnownHostsFile " + folder.path("known_hosts") +
                             "\nGlobalKnownHostsFile /dev/null\nGSSAPIAuthentication no\n");
}

void World::know(const std::string& name, const std::string& public_key_file) const {
  std::ofstream(folder.path("known_hosts"), std::ios::app) << name << ' ' << folder.read(public_key_file);
}

std::string World::fingerprint() const {
  std::stringstream words(output_of({"ssh-keygen", "-l", "-f", folder.path("host_server.pub")}));
  std::string fingerprint;
  words >> fingerprint >> fingerprint;
  return fingerprint;
}

void run(Loop& loop, Task<> task) {
  std::exception_ptr escaped;
  bool done = false;
  spawn(loop.get_executor(), std::move(task), [&](std::exception_ptr failure) {
    escaped = failure;
    done = true;
    loop.stop();
  });
  loop.restart();
  loop.run();
  REQUIRE(done);
  if (escaped) {
    std::rethrow_exception(escaped);
  }
}

std::string Dial::fact(const std::string& name) const {
  if (error) {
    for (const auto& [fact, value] : error->facts()) {
      if (fact == name) {
        return std::get<std::string>(value);
      }
    }
  }
  return "";
}

namespace {

Task<std::string> answer(Dial& dial, std::deque<std::string>& answers, transports::SshQuestion question) {
  dial.questions.push_back(std::move(question));
  if (answers.empty()) {
    throw Error(Fault::HostUnreachable, "nobody is there");
  }
  std::string next = answers.front();
  answers.pop_front();
  co_return next;
}

Task<> dial_into(Executor executor, transports::SshTarget target, std::deque<std::string>& answers,
                 const std::string& cancel_at, Dial& dial) {
  Cancel cancel;
  transports::SshAttempt attempt{
      [&](std::string_view phase, std::string_view detail) {
        dial.phases.push_back(std::string(phase) + ": " + std::string(detail));
        if (phase == cancel_at) {
          cancel.request(Cancel::Wish::stop_work);
        }
      },
      [&](transports::SshQuestion question) { return answer(dial, answers, std::move(question)); }, cancel};
  try {
    dial.reached = co_await transports::dial_ssh(executor, std::move(target), std::move(attempt));
  } catch (const Error& error) {
    dial.error = error;
  }
}

Task<> exchange_with(Executor executor, Transport& transport, std::string input, std::string& output) {
  spawn(executor, write_everything(transport, std::move(input)));
  output = co_await read_exactly(transport, std::string::npos);
}

}  // namespace

Dial dial(Loop& loop, transports::SshTarget target, std::deque<std::string> answers, std::string cancel_at) {
  Dial dial;
  run(loop, dial_into(loop.get_executor(), std::move(target), answers, cancel_at, dial));
  if (dial.error) {
    UNSCOPED_INFO(dial.error->message());
  }
  return dial;
}

Dial dial(Loop& loop, const std::string& host, const std::string& command, std::deque<std::string> answers) {
  return dial(loop, {"", host, 0, command}, std::move(answers));
}

std::string exchange(Loop& loop, Transport& transport, std::string input) {
  std::string output;
  run(loop, exchange_with(loop.get_executor(), transport, std::move(input), output));
  return output;
}

Task<std::string> read_exactly(Transport& transport, std::size_t size) {
  std::string all;
  std::vector<char> buffer(256 * 1024);
  while (all.size() < size) {
    const std::span<char> room(buffer.data(), std::min(buffer.size(), size - all.size()));
    const std::size_t n = co_await transport.read_some(room);
    if (n == 0) {
      break;
    }
    all.append(buffer.data(), n);
  }
  co_return all;
}

Task<> write_everything(Transport& transport, std::string data) {
  std::string_view rest = data;
  while (!rest.empty()) {
    rest.remove_prefix(transport.try_write(rest));
    if (!rest.empty()) {
      co_await transport.writable();
    }
  }
}

std::string noise(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = 88172645463325252;
  for (char& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<char>(state);
  }
  return bytes;
}

}  // namespace rex::test
