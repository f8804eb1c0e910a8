// A host is the one it was, or it is refused: nothing is sent to prove who the user is before that is settled.

#include <filesystem>

#include "ssh/rig.h"

using namespace rex;
using namespace rex::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The server saw nobody try to log in.
void check_untouched(const World& world) {
  CHECK(!has(world.folder.read("log_server"), "Accepted"));
  CHECK(!has(world.folder.read("log_server"), "Failed"));
}

}  // namespace

TEST_CASE("an unknown host is refused with its fingerprint when nobody can be asked", "[I3][T06]") {
  World world;
  world.folder.write("known_hosts", "");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "true");
  REQUIRE(dialled.error);
  CHECK(dialled.error->fault() == Fault::HostKeyRejected);
  CHECK(dialled.fact("fingerprint") == world.fingerprint());
  CHECK(has(dialled.fact("detail"), "not known"));
  CHECK(world.folder.read("known_hosts").empty());
  check_untouched(world);
}

TEST_CASE("an unknown host is asked about once, and known from then on only if the answer was yes", "[I3]") {
  for (const std::string hash : {"yes", "no"}) {
    CAPTURE(hash);
    World world;
    world.folder.write("known_hosts", "# no newline at the end");
    world.configure(world.host("server", *world.server, "StrictHostKeyChecking no\nHashKnownHosts " + hash));
    Loop loop{1};
    Dial refused = dial(loop, "server", "true", {"no"});
    REQUIRE(refused.error);
    CHECK(refused.error->fault() == Fault::HostKeyRejected);
    CHECK(world.folder.read("known_hosts") == "# no newline at the end");
    check_untouched(world);

    Dial accepted = dial(loop, "server", "echo in", {"yes"});
    REQUIRE(accepted.reached.transport);
    REQUIRE(accepted.questions.size() == 1);
    CHECK(accepted.questions[0].kind == "hostKey");
    CHECK(has(accepted.questions[0].text, world.fingerprint()));
    CHECK(has(world.folder.read("known_hosts"), "127.0.0.1") == (hash == "no"));
    CHECK(dial(loop, "server", "true").reached.transport);
    // The user's ssh finds it too.
    CHECK(has(output_of({"ssh-keygen", "-F", world.known_name(), "-f", world.folder.path("known_hosts")}), "found"));
  }
}

TEST_CASE("a changed host key is refused, whoever could be asked, with both keys told", "[I3][T05]") {
  World world;
  world.folder.key("impostor");
  world.folder.write("known_hosts", "");
  world.know(world.known_name(), "impostor.pub");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "true", {"yes", "yes"});
  REQUIRE(dialled.error);
  CHECK(dialled.error->fault() == Fault::HostKeyRejected);
  CHECK(dialled.questions.empty());
  CHECK(dialled.fact("fingerprint") == world.fingerprint());
  const std::string known = output_of({"ssh-keygen", "-l", "-f", world.folder.path("impostor.pub")});
  CHECK(has(dialled.fact("detail"), known.substr(4, known.find(' ', 4) - 4)));
  CHECK(has(dialled.fact("detail"), "known_hosts:1"));
  check_untouched(world);
}

TEST_CASE("a revoked host key is refused though it is known", "[I3]") {
  World world;
  world.know("@revoked *", "host_server.pub");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "true", {"yes"});
  REQUIRE(dialled.error);
  CHECK(dialled.error->fault() == Fault::HostKeyRejected);
  CHECK(has(dialled.fact("detail"), "revoked"));
  check_untouched(world);
}

TEST_CASE("a hashed name, a second file, an alias and another port's name are known as ssh knows them", "[I3]") {
  World world;
  Loop loop{1};
  output_of({"ssh-keygen", "-q", "-H", "-f", world.folder.path("known_hosts")});
  CHECK(!has(world.folder.read("known_hosts"), "127.0.0.1"));
  CHECK(dial(loop, "server", "true").reached.transport);

  std::filesystem::rename(world.folder.path("known_hosts"), world.folder.path("second"));
  world.configure(
      world.host("server", *world.server, "UserKnownHostsFile /nonexistent " + world.folder.path("second")));
  CHECK(dial(loop, "server", "true").reached.transport);

  world.folder.write("known_hosts", "");
  world.know("other,The-Alias", "host_server.pub");
  world.configure(world.host("server", *world.server, "HostKeyAlias the-alias"));
  CHECK(dial(loop, "server", "true").reached.transport);

  world.folder.write("known_hosts", "");
  world.know("127.0.0.1", "host_server.pub");
  world.configure(world.host("server", *world.server));
  CHECK(dial(loop, "server", "true").reached.transport);
}

TEST_CASE("strict checking asks nobody", "[I3]") {
  World world("", "StrictHostKeyChecking yes");
  world.folder.write("known_hosts", "");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "true", {"yes"});
  REQUIRE(dialled.error);
  CHECK(dialled.error->fault() == Fault::HostKeyRejected);
  CHECK(dialled.questions.empty());
}

TEST_CASE("a host under a certificate authority is left to the user's own ssh", "[I3]") {
  World world;
  world.folder.key("authority");
  world.know("@cert-authority *.example.org,[127.0.0.1]:*", "authority.pub");
  Loop loop{1};
  Dial dialled = dial(loop, "server", "true");
  CHECK(!dialled.error);
  CHECK(dialled.reached.argv.size() > 2);
  CHECK(has(dialled.reached.took, "certificate authority"));
}
