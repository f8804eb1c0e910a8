// What shell/cgroup.h promises of places: ours is found whatever is mounted, and nobody gets out of a limit by asking
// for one. Directories with plain files stand for cgroups; what the kernel makes of them is for test_trees.py.
#include "shell/cgroup.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace rex::shell {
namespace {

using Directories = std::vector<std::string>;

TEST_CASE("Our own cgroup is found in whatever mount holds it, and those above it") {
  const std::string v1 = "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n";
  const std::string plain = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
  const struct {
    std::string what;
    std::string mountinfo;
    std::string own;
    Directories expected;
  } rows[] = {
      {"a service of a user",
       plain,
       "0::/user.slice/app.slice/x.service\n",
       {"/sys/fs/cgroup/user.slice/app.slice/x.service", "/sys/fs/cgroup/user.slice/app.slice",
        "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}},
      {"the root, beside v1",
       v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
       "8:pids:/a\n1:cpu:/b\n0::/\n",
       {"/sys/fs/cgroup/unified"}},
      {"a part of the tree is mounted",
       "30 23 0:26 /pod/c1 /cg rw - cgroup2 c rw\n",
       "0::/pod/c1/x\n",
       {"/cg/x", "/cg"}},
      {"exactly that part", "30 23 0:26 /pod/c1 /cg rw - cgroup2 c rw\n", "0::/pod/c1\n", {"/cg"}},
      {"another part", "30 23 0:26 /pod/c1 /cg rw - cgroup2 c rw\n", "0::/pod/c11\n", {}},
      {"the mount that holds us",
       "30 23 0:26 /other /no rw - cgroup2 c rw\n31 23 0:26 / /yes rw - cgroup2 c rw\n",
       "0::/a",
       {"/yes/a", "/yes"}},
      {"outside of our namespace", plain, "0::/../x\n", {}},
      {"blanks and backslashes",
       "30 23 0:26 / /a\\040b\\134 rw - cgroup2 c rw\n",
       "0::/c d\n",
       {"/a b\\/c d", "/a b\\"}},
      {"v1 alone", v1, "8:pids:/\n", {}},
      {"no such mount", v1, "0::/\n", {}},
      {"nothing", "", "", {}},
      {"torn", "30 23 0:26", "0:", {}},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    CHECK(cgroups_upwards(row.mountinfo, row.own) == row.expected);
  }
}

/// A tree of directories that look like cgroups: /top/middle/own.
class Tree {
 public:
  Tree() {
    char path[] = "/tmp/rex-cgroup-XXXXXX";
    top_ = ::mkdtemp(path);
    for (const std::string& directory : upwards()) {
      std::filesystem::create_directories(directory);
      put(directory + "/cgroup.procs", "");
      put(directory + "/cgroup.subtree_control", "");
    }
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() {
    std::error_code ignored;
    std::filesystem::remove_all(top_, ignored);
  }

  static void put(const std::string& file, const std::string& text) { std::ofstream(file) << text; }

  [[nodiscard]] std::string top() const { return top_; }
  [[nodiscard]] std::string middle() const { return top_ + "/middle"; }
  [[nodiscard]] std::string own() const { return middle() + "/" + name; }
  [[nodiscard]] Directories upwards() const { return {own(), middle(), top()}; }

  std::string name = "own";

 private:
  std::string top_;
};

TEST_CASE("The nearest cgroup that counts what is wanted is taken, else what counts most of it") {
  const Tree tree;
  const TreeLimits both{100, 1 << 20};
  CHECK_FALSE(find_cgroup_place(tree.upwards(), both));
  Tree::put(tree.top() + "/cgroup.subtree_control", "cpu memory pids\n");
  CHECK(find_cgroup_place(tree.upwards(), both)->directory == tree.top());
  Tree::put(tree.middle() + "/cgroup.subtree_control", "pids\n");
  CHECK(find_cgroup_place(tree.upwards(), both)->directory == tree.top());
  CHECK(find_cgroup_place(tree.upwards(), {100, {}})->directory == tree.middle());
  std::filesystem::remove(tree.top() + "/cgroup.procs");  // nobody could be moved into what is made there
  const std::optional<CgroupPlace> part = find_cgroup_place(tree.upwards(), both);
  CHECK(part->directory == tree.middle());
  CHECK(part->limits.processes == 100);
  CHECK_FALSE(part->limits.memory_bytes);
  CHECK_FALSE(find_cgroup_place(tree.upwards(), {{}, 1 << 20}));
}

TEST_CASE("A limit gets nobody out of a tighter one") {
  const Tree tree;
  Tree::put(tree.top() + "/cgroup.subtree_control", "memory pids\n");
  Tree::put(tree.top() + "/pids.max", "7\n");  // holds all below it anyway
  Tree::put(tree.own() + "/pids.max", "max\n");
  Tree::put(tree.middle() + "/pids.max", "50\n");
  Tree::put(tree.own() + "/memory.max", "65536\n");
  const std::optional<CgroupPlace> more = find_cgroup_place(tree.upwards(), {100, {}});
  CHECK(more->limits.processes == 50);
  CHECK(more->limits.memory_bytes == 65536);
  CHECK(find_cgroup_place(tree.upwards(), {20, {}})->limits.processes == 20);
}

TEST_CASE("The cgroup of a session is not left by what runs in it") {
  Tree tree;
  std::filesystem::rename(tree.own(), tree.middle() + "/rex-rpc-12");
  tree.name = "rex-rpc-12";
  Tree::put(tree.middle() + "/cgroup.subtree_control", "pids\n");
  CHECK_FALSE(find_cgroup_place(tree.upwards(), {100, {}}));
  Tree::put(tree.own() + "/cgroup.subtree_control", "pids\n");
  CHECK(find_cgroup_place(tree.upwards(), {100, {}})->directory == tree.own());
}

}  // namespace
}  // namespace rex::shell
