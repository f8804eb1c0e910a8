// What the user's ssh reaches is reached, as the user's ssh reaches it, or it is said why not.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "ssh/rig.h"
#include "transports/ssh_config.h"

using namespace rex;
using namespace rex::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A private agent for one test.
class Agent {
 public:
  explicit Agent(const Folder& folder) {
    const std::string said = output_of({"ssh-agent", "-s", "-a", folder.path("agent")});
    pid_ = std::stoi(said.substr(said.find("SSH_AGENT_PID=") + 14));
    ::setenv("SSH_AUTH_SOCK", folder.path("agent").c_str(), 1);
  }
  ~Agent() {
    ::kill(pid_, SIGTERM);
    ::unsetenv("SSH_AUTH_SOCK");
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  static void add(const std::string& key) { output_of({"ssh-add", "-q", key}); }

 private:
  int pid_ = 0;
};

}  // namespace

TEST_CASE("a command is reached over one connection, its input and output are the stream", "[I6]") {
  World world;
  Loop loop{1};
  Dial dialled = dial(loop, "server", "read x; echo \"got $x\"; echo lost words >&2; exit 3");
  REQUIRE(dialled.reached.transport);
  CHECK(exchange(loop, *dialled.reached.transport, "hello\n") == "got hello\n");
  CHECK(dialled.reached.last_words() == "the command ended with code 3; it wrote to its stderr: lost words\\x0a");
  CHECK(has(dialled.reached.took, "libssh"));
  CHECK(has(dialled.reached.took, "ssh -G"));
  CHECK(has(dialled.reached.took, world.fingerprint()));
  CHECK(has(dialled.reached.took, "key " + world.key));
  CHECK(world.server->connections() == 1);
  std::string phases;
  for (const std::string& phase : dialled.phases) {
    phases += phase.substr(0, phase.find(':')) + " ";
  }
  CHECK(phases == "dns tcp kex host key auth channel ");
}

TEST_CASE("what ends the command is told", "[P14]") {
  World world;
  Loop loop{1};
  Dial dialled = dial(loop, "server", "kill -TERM $$");
  REQUIRE(dialled.reached.transport);
  CHECK(exchange(loop, *dialled.reached.transport, "").empty());
  CHECK(has(dialled.reached.last_words(), "signal TERM"));
}

TEST_CASE("the configuration means what it means to ssh: Include, Match exec, tokens, environment", "[I1]") {
  World world("AcceptEnv REX_*\nPermitUserEnvironment no");
  world.folder.write("more", "Match originalhost alias exec \"test %n = alias\"\nHostName 127.0.0.1\nPort " +
                                 std::to_string(world.server->port()) + "\nSetEnv REX_SET=a-b\nSendEnv REX_SENT*\n");
  world.configure("Include " + world.folder.path("more") + "\n");
  ::setenv("REX_SENT_1", "c d", 1);
  Loop loop{1};
  Dial dialled = dial(loop, "alias", "echo $REX_SET $REX_SENT_1");
  REQUIRE(dialled.reached.transport);
  CHECK(exchange(loop, *dialled.reached.transport, "") == "a-b c d\n");
}

TEST_CASE("an order of ciphers that somebody chose stays; of ssh's own those of the processor come first", "[I1]") {
  const auto ciphers_of = [](const std::string& list) {
    return transports::read_ssh_config("ciphers " + list + "\n").ciphers;
  };
  const std::string unsaid =
      "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com";
  const std::string swift =
      "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr";
  std::ifstream cpu("/proc/cpuinfo");
  const std::string features((std::istreambuf_iterator<char>(cpu)), std::istreambuf_iterator<char>());
  CHECK(ciphers_of(unsaid) == (has(features, " aes ") && has(features, "mul") ? swift : unsaid));
  const std::string chosen = "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com";
  CHECK(ciphers_of(chosen) == chosen);
}

TEST_CASE("servers that allow little are enough: banner, no terminal, no forwarding, one session", "[I4][I6]") {
  Folder banner;
  World world("Banner " + banner.write("banner", "Keep out!\n", 0644) +
                  "\nPermitTTY no\nAllowTcpForwarding no\nMaxSessions 1\nDisableForwarding yes",
              "RequestTTY force\nRemoteCommand false\nForwardAgent yes\nLogLevel QUIET");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "cat");
  REQUIRE(dialled.reached.transport);
  run(loop, write_everything(*dialled.reached.transport, "x"));
  bool told = false;
  for (const std::string& phase : dialled.phases) {
    told = told || has(phase, "Keep out!");
  }
  CHECK(told);
}

TEST_CASE("a forced command runs instead of ours, and its words are the stream", "[I4]") {
  World world("ForceCommand echo only this");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "sh");
  REQUIRE(dialled.reached.transport);
  CHECK(exchange(loop, *dialled.reached.transport, "") == "only this\n");
}

TEST_CASE("a server that refuses sessions says so in the phase channel", "[I6]") {
  World world("MaxSessions 0");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "true");
  REQUIRE(dialled.error);
  CHECK(dialled.error->fault() == Fault::HostUnreachable);
  CHECK(dialled.fact("phase") == "channel");
}

TEST_CASE("an encrypted key asks for its passphrase, once more when it is wrong, and not twice when nobody answers",
          "[I7][T09]") {
  World world;
  const std::string locked = world.folder.key("locked", "open sesame");
  world.folder.write("authorized_keys", world.folder.read("locked.pub"));
  world.configure(world.host("server", *world.server, "IdentityFile " + locked));
  Loop loop{1};

  Dial silent = dial(loop, "server", "true");
  REQUIRE(silent.error);
  CHECK(silent.fact("phase") == "auth");
  CHECK(has(silent.fact("detail"), locked));
  CHECK(has(silent.fact("detail"), "nobody is there"));
  CHECK(silent.questions.size() == 1);

  Dial dialled = dial(loop, "server", "echo in", {"wrong", "open sesame"});
  REQUIRE(dialled.reached.transport);
  CHECK(exchange(loop, *dialled.reached.transport, "") == "in\n");
  REQUIRE(dialled.questions.size() == 2);
  CHECK(dialled.questions[0].kind == "passphrase");
  CHECK(dialled.questions[0].secret);
}

TEST_CASE("a key the server does not want costs one offer and one connection, and is told in ssh's words",
          "[T09][I6]") {
  World world("MaxAuthTries 2");
  world.configure(world.host("server", *world.server, "IdentityFile " + world.folder.key("other")));
  world.folder.write("authorized_keys", world.folder.read("host_server.pub"));
  Loop loop{1};
  Dial dialled = dial(loop, "server", "true");
  REQUIRE(dialled.error);
  CHECK(dialled.error->fault() == Fault::HostUnreachable);
  CHECK(dialled.fact("phase") == "auth");
  CHECK(has(dialled.fact("detail"), "Too many authentication failures"));
  CHECK(world.server->connections() == 1);
}

TEST_CASE("the agent's keys come first, those of IdentityFile before others, and with IdentitiesOnly no others",
          "[I7][T09]") {
  World world("MaxAuthTries 2");
  const std::string locked = world.folder.key("locked", "secret");
  Agent agent(world.folder);
  for (int i = 0; i < 3; ++i) {
    Agent::add(world.folder.key("other" + std::to_string(i)));
  }
  // The agent has the key in the clear: no question, though the file is locked.
  output_of({"ssh-keygen", "-q", "-a", "1", "-p", "-P", "secret", "-N", "", "-f", locked});
  Agent::add(locked);
  output_of({"ssh-keygen", "-q", "-a", "1", "-p", "-P", "", "-N", "secret", "-f", locked});
  world.folder.write("authorized_keys", world.folder.read("locked.pub"));
  Loop loop{1};
  for (const std::string only : {"yes", "no"}) {
    CAPTURE(only);
    world.configure(world.host("server", *world.server, "IdentityFile " + locked + "\nIdentitiesOnly " + only));
    Dial dialled = dial(loop, "server", "true");
    REQUIRE(dialled.reached.transport);
    CHECK(dialled.questions.empty());
    CHECK(has(dialled.reached.took, "key locked of the agent"));
  }
  world.configure(world.host("server", *world.server, "IdentityAgent none\nIdentityFile " + locked));
  CHECK(dial(loop, "server", "true").questions.size() == 1);
}

TEST_CASE("an agent that says nothing is given up with the dial", "[I7]") {
  World world;
  // Takes connections and never answers.
  const std::string path = world.folder.path("dumb");
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 4) == 0);
  world.configure(world.host("server", *world.server, "IdentityAgent " + path));
  Loop loop{1};
  Dial dialled = dial(loop, {"", "server", 0, "true"}, {}, "auth");
  REQUIRE(dialled.error);
  CHECK(dialled.error->fault() == Fault::RequestCancelled);
}

TEST_CASE("dropbear is reached as sshd is", "[I8]") {
  if (::geteuid() != 0 || ::access("/usr/sbin/dropbear", X_OK) != 0) {
    SKIP("needs root, for a home directory of its own, and dropbear");
  }
  World world;
  const std::string host_key = world.folder.path("dropbear");
  output_of({"dropbearkey", "-t", "ed25519", "-f", host_key});
  const std::string shown = output_of({"dropbearkey", "-y", "-f", host_key});
  world.folder.write("dropbear.pub", shown.substr(shown.find("ssh-ed25519")));
  const char* const home = std::getenv("HOME");
  const std::string start = "mount -t tmpfs -o mode=700 tmpfs " + std::string(home) + " && mkdir -m 700 " + home +
                            "/.ssh && cp " + world.folder.path("authorized_keys") + " " + home +
                            "/.ssh && exec dropbear -i -s -r " + host_key;
  Server dropbear({"unshare", "-m", "sh", "-c", start}, world.folder.path("log_dropbear"));
  world.folder.write("known_hosts", "");
  world.folder.write("known.pub",
                     world.folder.read("dropbear.pub").substr(0, world.folder.read("dropbear.pub").find('\n') + 1));
  world.know("[127.0.0.1]:" + std::to_string(dropbear.port()), "known.pub");
  world.configure(world.host("server", dropbear));
  Loop loop{1};
  Dial dialled = dial(loop, "server", "head -c 5000000; echo words >&2; exit 4");
  INFO(world.folder.read("log_dropbear"));
  REQUIRE(dialled.reached.transport);
  const std::string data = noise(5'000'000);
  CHECK((exchange(loop, *dialled.reached.transport, data) == data));
  CHECK(has(dialled.reached.last_words(), "code 4"));
  CHECK(has(dialled.reached.last_words(), "words"));
}

TEST_CASE("two jump hosts are passed through one connection each, and a failure at one is told as its own", "[I1]") {
  World world("AllowTcpForwarding yes");
  const auto first = world.sshd("first", "AllowTcpForwarding yes");
  const auto second = world.sshd("second", "AllowTcpForwarding yes");
  world.know("[127.0.0.1]:" + std::to_string(first->port()), "host_first.pub");
  world.know("[127.0.0.1]:" + std::to_string(second->port()), "host_second.pub");
  const std::string hosts = world.host("first", *first) + world.host("second", *second);
  world.configure(world.host("server", *world.server, "ProxyJump first,second") + hosts);
  Loop loop{1};
  Dial dialled = dial(loop, "server", "head -c 3000000");
  REQUIRE(dialled.reached.transport);
  const std::string data = noise(3'000'000);
  CHECK((exchange(loop, *dialled.reached.transport, data) == data));
  CHECK(has(dialled.reached.took, "jump host first"));
  CHECK(has(dialled.reached.took, "jump host second"));
  CHECK(first->connections() == 1);
  CHECK(second->connections() == 1);

  world.configure(world.host("server", *world.server, "ProxyJump first,second") + world.host("first", *first) +
                  world.host("second", *second, "IdentityFile none\nIdentitiesOnly yes\nPubkeyAuthentication no"));
  Dial failed = dial(loop, "server", "true");
  REQUIRE(failed.error);
  CHECK(failed.fact("phase") == "auth");
  CHECK(has(failed.fact("detail"), "jump host second"));
}

TEST_CASE("what libssh cannot do is left to the user's own ssh, and said", "[I1][I8]") {
  World world;
  const std::string certified = world.folder.key("certified");
  world.folder.write("certified-cert.pub", "whatever");
  world.folder.write("token", "private");
  world.folder.write("token.pub", "sk-ssh-ed25519@openssh.com AAAA x");
  const std::pair<std::string, std::string> cases[] = {
      {"ProxyCommand nc %h %p", "proxycommand"},
      {"IdentityFile " + certified, "certificate"},
      {"IdentityFile " + world.folder.path("token"), "hardware key"},
      {"PKCS11Provider /x.so", "pkcs11provider"},
      {"KnownHostsCommand /bin/true", "knownhostscommand"},
      {"HostbasedAuthentication yes", "hostbased"},
      {"KexAlgorithms sntrup761x25519-sha512@openssh.com", "kexalgorithms"},
      {"IdentityFile %d/x-%h", "path"},
  };
  Loop loop{1};
  for (const auto& [line, why] : cases) {
    CAPTURE(line);
    world.configure(world.host("server", *world.server, line));
    Dial dialled = dial(loop, "server", "sh");
    REQUIRE(!dialled.error);
    CHECK(!dialled.reached.transport);
    CHECK(has(dialled.reached.took, why));
    REQUIRE(dialled.reached.argv.size() > 2);
    CHECK(dialled.reached.argv.front() == "ssh");
    CHECK(dialled.reached.argv.back() == "sh");
  }
  CHECK(world.server->connections() == 0);
}

TEST_CASE("the user's own ssh connects a command, whatever the configuration asks besides", "[I4][I5]") {
  World world("",
              "ProxyCommand nc %h %p\nRemoteCommand false\nRequestTTY force\nControlMaster auto\nControlPersist "
              "yes\nControlPath /nonexistent/" +
                  std::string(120, 'x'));
  auto argv = transports::user_ssh_argv({"", "server", 0, "read x; echo \"got $x\""});
  argv.insert(argv.begin() + 1, {"-o", "ProxyCommand=none"});
  CHECK(output_of(argv, "it\n") == "got it\n");
}

TEST_CASE("names that a shell or an option parser could misread are refused before anything is started", "[T12][I12]") {
  World world;
  world.folder.write("bin/ssh", "#!/bin/sh\ntouch " + world.folder.path("started") + "\n", 0700);
  const std::pair<std::string, std::string> bad[] = {
      {"", "-oProxyCommand=touch x"},
      {"", "a;b"},
      {"", "a\nb"},
      {"", "a b"},
      {"", "$(x)"},
      {"", std::string(300, 'a')},
      {"", "h\x01"},
      {"", "höst"},
      {"", ""},
      {"", "a`b`"},
      {"-x", "server"},
      {"a;b", "server"},
      {"a\nb", "server"},
      {"a|b", "server"},
      {std::string(300, 'a'), "server"},
  };
  Loop loop{1};
  for (const auto& [user, host] : bad) {
    CAPTURE(user, host);
    Dial dialled = dial(loop, {user, host, 0, "true"});
    REQUIRE(dialled.error);
    CHECK(dialled.error->fault() == Fault::InvalidParams);
    CHECK_THROWS_AS(transports::user_ssh_argv({user, host, 0, "true"}), Error);
  }
  CHECK(::access(world.folder.path("started").c_str(), F_OK) != 0);
  CHECK(transports::user_ssh_argv({"DOMAIN\\me", "fe80::1%eth0", 22, "true"}).size() > 5);
}
