// The contract and the program, side by side.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "methods/hosts_file.h"
#include "methods/key_store.h"
#include "methods/keys.h"
#include "methods/methods.h"
#include "methods/wire.gen.h"
#include "relay/router.h"

using namespace rex;

TEST_CASE("Every method of the schema is bound, and nothing else is") {
  shell::Nursery nursery;
  Loop loop;
  Workers workers(loop.get_executor());
  shell::Sessions sessions(loop.get_executor(), nursery, workers, shell::default_journal_memory);
  methods::Keys keys(loop.get_executor());
  methods::KeyStore key_store(loop.get_executor(), workers, "");
  rpc::MethodTable table;
  relay::Hosts hosts("", nullptr, nullptr, nullptr);
  const auto pipes = std::make_shared<relay::Pipes>();
  relay::Router router(table, hosts, pipes, nullptr);
  methods::HostsFile file("", nullptr);
  const methods::Parts parts{
      loop.get_executor(), "", nursery, sessions, keys, key_store, workers, hosts, file, pipes, router, nullptr};
  methods::bind_all(table, parts);

  std::vector<std::string> bound = table.names();
  std::vector<std::string> promised(wire::requests.begin(), wire::requests.end());
  std::sort(bound.begin(), bound.end());
  std::sort(promised.begin(), promised.end());
  CHECK(bound == promised);
}
