// What a host is reached by, read strictly: whatever is refused here has started no program and opened no socket.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "hosts/target.h"

using namespace rex::hosts;

namespace {

Place parse(const std::string& url) { return parse_target({.url = url, .argv = {}}); }

std::string member_refused(const rex::relay::Target& target) {
  try {
    parse_target(target);
  } catch (const rex::Error& error) {
    CHECK(error.fault() == rex::Fault::InvalidParams);
    return std::get<std::string>(error.facts().at(0).second);
  }
  FAIL("accepted: " << target.url);
  return {};
}

}  // namespace

TEST_CASE("A URL says by which way and to where") {
  CHECK(parse("ssh://web") == Place(SshPlace{"", "web", {}}));
  CHECK(parse("ssh://me@web-1.example.org:2222") == Place(SshPlace{"me", "web-1.example.org", 2222}));
  CHECK(parse("ssh://CORP\\ann@host_x") == Place(SshPlace{"CORP\\ann", "host_x", {}}));
  CHECK(parse("ssh://ann@corp.example@gate") == Place(SshPlace{"ann@corp.example", "gate", {}}));
  CHECK(parse("ssh://[::1]") == Place(SshPlace{"", "::1", {}}));
  CHECK(parse("ssh://root@[fe80::1%eth0]:22") == Place(SshPlace{"root", "fe80::1%eth0", 22}));
  CHECK(parse("ssh://10.0.0.7:65535") == Place(SshPlace{"", "10.0.0.7", 65535}));
  CHECK(parse("tcp://127.0.0.1:4711") == Place(TcpPlace{"127.0.0.1", 4711}));
  CHECK(parse("tcp://[::1]:1") == Place(TcpPlace{"::1", 1}));
  CHECK(parse("unix:///run/user/1/a b.sock") == Place(UnixPlace{"/run/user/1/a b.sock"}));
  CHECK(parse("unix:///%2e/x") == Place(UnixPlace{"/%2e/x"}));
  CHECK(parse("exec:ssh -J a  b ") == Place(ExecPlace{{"ssh", "-J", "a", "b"}}));
  CHECK(parse("exec:sh -c 'x'") == Place(ExecPlace{{"sh", "-c", "'x'"}}));
  CHECK(parse_target({.url = "", .argv = {"sh", "", "a\nb"}}) == Place(ExecPlace{{"sh", "", "a\nb"}}));
}

TEST_CASE("What could mean something to whoever is given it is refused", "[T12][I12]") {
  const std::vector<std::string> refused{
      "",
      "web",
      "http://web",
      "SSH://web",
      "ssh:web",
      "ssh://",
      "ssh://-oProxyCommand=x",
      "ssh://me@-oProxyCommand=x",
      "ssh://-lroot@web",
      "ssh://a;b@web",
      "ssh://a b@web",
      "ssh://$(x)@web",
      "ssh://`x`@web",
      "ssh://@web",
      "ssh://me:secret@web",
      "ssh://we;b",
      "ssh://we\nb",
      std::string("ssh://we\0b", 10),
      "ssh://b\xc3\xbc"
      "cher.example",
      "ssh://" + std::string(300, 'a'),
      "ssh://" + std::string(300, 'u') + "@web",
      "ssh://::1",
      "ssh://fe80::1:22",
      "ssh://[::1",
      "ssh://[::1]22",
      "ssh://[web]",
      "ssh://[::1%]",
      "ssh://[::1%a;b]",
      "ssh://web:",
      "ssh://web:0",
      "ssh://web:65536",
      "ssh://web:+22",
      "ssh://web:022",
      "ssh://web:22x",
      "ssh://web/",
      "ssh://web/path",
      "ssh://web?x",
      "tcp://127.0.0.1",
      "tcp://0.0.0.0:1",
      "tcp://10.0.0.1:1",
      "tcp://example.org:1",
      "tcp://[::]:1",
      "tcp://me@127.0.0.1:1",
      "unix://run/a",
      "unix:///",
      "unix:/run/a",
      "exec:",
      "exec:   ",
      "exec:a\x1b[2J",
      "exec:" + std::string(5000, 'a'),
  };
  for (const std::string& url : refused) {
    CAPTURE(url);
    CHECK(member_refused({.url = url, .argv = {}}) == "url");
  }
}

TEST_CASE("An argv that no program can be given is refused") {
  CHECK(member_refused({.url = "", .argv = {""}}) == "argv[0]");
  CHECK(member_refused({.url = "", .argv = {"sh", std::string("a\0b", 3)}}) == "argv[1]");
  CHECK(member_refused({.url = "ssh://web", .argv = {"sh"}}) == "argv");
  CHECK(member_refused({.url = "", .argv = std::vector<std::string>(300, "x")}) == "argv");
  CHECK(member_refused({.url = "", .argv = {"sh", std::string(70000, 'x')}}) == "argv");
}
