#include "base/machine.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace rex {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string boot_id() { return first_line("/proc/sys/kernel/random/boot_id"); }

std::string machine_id() {
  const std::string installed = first_line("/etc/machine-id");
  std::array<char, 256> name{};
  return !installed.empty() || ::gethostname(name.data(), name.size() - 1) != 0 ? installed : name.data();
}

}  // namespace rex
