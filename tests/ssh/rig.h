// Real SSH servers for a test, each connection a process of its own on a port of ours; a configuration that only these
// tests see; a person with prepared answers; and a dial that is run to its end.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "transports/ssh.h"

namespace rex::test {

/// Runs a program with what it is given on its stdin, and returns what it printed; requires that it succeeds.
std::string output_of(const std::vector<std::string>& argv, const std::string& input = "");

/// A directory that is removed with all that is in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text, int mode = 0600) const;
  [[nodiscard]] std::string read(const std::string& name) const;
  /// A new key pair; returns the path of its private half.
  std::string key(const std::string& name, const std::string& passphrase = "",
                  const std::string& kind = "ed25519") const;

 private:
  std::string path_;
};

/// Listens on 127.0.0.1 and starts a program for each connection, with the connection as its stdin and stdout.
class Server {
 public:
  Server(std::vector<std::string> argv, std::string log);
  /// Ends all that was started.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int connections() const { return connections_; }
  /// To every process of every connection.
  void signal(int number);

 private:
  void accept_all();

  std::vector<std::string> argv_;
  std::string log_;
  Fd listener_;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::atomic<pid_t> groups_[16] = {};
  std::thread thread_;
};

/// What most tests need: an sshd that lets `key` in, and a configuration in which it is the host `server`.
class World {
 public:
  explicit World(const std::string& sshd_lines = "", const std::string& ssh_lines = "");
  ~World();

  /// Another sshd, with a host key of its own.
  std::unique_ptr<Server> sshd(const std::string& name, const std::string& lines);
  /// Replaces the configuration: what `Host server` says is put before the defaults that every test needs.
  void configure(const std::string& text) const;
  /// As in known_hosts: the name, and the public key in `file`.
  void know(const std::string& name, const std::string& public_key_file) const;
  [[nodiscard]] std::string host(const std::string& name, const Server& server, const std::string& lines = "") const;
  [[nodiscard]] std::string known_name() const { return "[127.0.0.1]:" + std::to_string(server->port()); }
  [[nodiscard]] std::string fingerprint() const;

  Folder folder;
  std::string key;
  std::unique_ptr<Server> server;
};

/// Runs coroutines; what escapes from one is thrown by `run`.
void run(Loop& loop, Task<> task);

struct Dial {
  std::vector<std::string> phases;
  std::vector<transports::SshQuestion> questions;
  std::optional<Error> error;
  transports::SshReached reached;

  [[nodiscard]] std::string fact(const std::string& name) const;
};

/// Dials with these answers; without any left, nobody is there to answer. `cancel_at`: the phase at which the attempt
/// is no longer wanted.
Dial dial(Loop& loop, transports::SshTarget target, std::deque<std::string> answers = {}, std::string cancel_at = "");
Dial dial(Loop& loop, const std::string& host, const std::string& command, std::deque<std::string> answers = {});

/// Writes all of `input`, reads to the end, closes.
std::string exchange(Loop& loop, Transport& transport, std::string input);
/// Until exactly `size` bytes have come, or the end.
Task<std::string> read_exactly(Transport& transport, std::size_t size);
Task<> write_everything(Transport& transport, std::string data);

/// Bytes that are easy to make and hard to confuse.
std::string noise(std::size_t size);

}  // namespace rex::test
