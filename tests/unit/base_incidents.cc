// The file of incidents: it has what was noted, is its user's alone, and does not grow for ever. What a crash leaves in
// it is tests/e2e/test_endings.py's.
#include "base/incidents.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "files_support.h"

TEST_CASE("What is noted is a line of its own, in a file that is begun anew before it is too long", "[C09]") {
  const rex::files::TempDir folder;
  ::setenv("XDG_STATE_HOME", (folder / "not/yet").c_str(), 1);
  rex::note_crashes("rex-rpc 1.2.3 test");
  const std::string path = rex::incident_file();
  REQUIRE(path == folder / "not/yet/rex-rpc/incidents.log");
  rex::note_incident("one");
  rex::note_incident(std::string(10'000, 'x'));
  const std::string text = rex::files::get(path);
  CHECK(text.find("Z rex-rpc 1.2.3 test, pid " + std::to_string(::getpid()) + ": one\n") == 19);
  CHECK(text.ends_with("xxx\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms(0600));

  std::ofstream(path, std::ios::app) << std::string(std::size_t{1} << 20, 'y');
  rex::note_incident("two");
  CHECK(rex::files::get(path + ".1").starts_with(text));
  CHECK(rex::files::get(path).ends_with(": two\n"));
  CHECK(rex::files::get(path).size() < 200);
}

TEST_CASE("Where nothing can be noted nobody is held up", "[C09]") {
  ::setenv("XDG_STATE_HOME", "/proc/self", 1);
  rex::note_crashes("rex-rpc");
  rex::note_incident("lost");
  ::setenv("XDG_STATE_HOME", (std::string("/") + std::string(5000, 'x')).c_str(), 1);
  rex::note_crashes("rex-rpc");
  rex::note_incident("lost");
  CHECK(rex::incident_file().size() > 5000);
}
