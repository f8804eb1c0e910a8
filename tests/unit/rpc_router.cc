// Where a request goes, by its host and nothing else.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "relay/router.h"

using rex::Error;
using rex::Fault;
using rex::relay::HostPath;
using rex::relay::parse_host;

namespace {

Fault fault_of(const std::string& path) {
  try {
    parse_host(path);
  } catch (const Error& error) {
    return error.fault();
  }
  FAIL("accepted: " << path);
  return Fault::InternalError;
}

}  // namespace

TEST_CASE("A host path is split after its first name") {
  CHECK(parse_host("").first.empty());
  CHECK(parse_host("gpu").first == "gpu");
  CHECK(parse_host("gpu").rest.empty());
  CHECK(parse_host("bastion/build7").first == "bastion");
  CHECK(parse_host("a/b/c").rest == "b/c");
  CHECK(parse_host("1/2/3/4/5/6/7/8").rest == "2/3/4/5/6/7/8");
  CHECK(parse_host("me@web-1.example.org:2222").first == "me@web-1.example.org:2222");
}

TEST_CASE("A host path that no host can have is refused before anything is dialled", "[M05][M15][T12]") {
  for (const std::string& path :
       std::vector<std::string>{"/", "/a", "a/", "a//b", "-oProxyCommand=x", "a;b", "a b", "a\nb",
                                std::string("a\0b", 3), "\xc3\xa9", "a%2fb", ".", "..", "a/../b",
                                std::string(1000, 'a'), "a/" + std::string(256, 'a'), "$(x)", "a\\b", "\xff"}) {
    CAPTURE(path);
    CHECK(fault_of(path) == Fault::InvalidParams);
  }
  CHECK(fault_of("1/2/3/4/5/6/7/8/9") == Fault::HostLoop);
}
