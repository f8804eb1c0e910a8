// What the tests of files/ share: a directory of their own, outcomes as text, other users and private mounts.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace rex::files {

class TempDir {
 public:
  TempDir() {
    char path[] = "/tmp/rex-files-XXXXXX";
    path_ = ::mkdtemp(path);
    ::chmod(path_.c_str(), 0755);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void put(const std::string& path, const std::string& bytes, mode_t mode = 0644) {
  std::ofstream(path, std::ios::binary) << bytes;
  ::chmod(path.c_str(), mode);
}

inline std::string get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline struct ::stat status_of(const std::string& path) {
  struct ::stat status{};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status;
}

template <class T>
T fact(const Error& error, const std::string& name) {
  for (const auto& [key, value] : error.facts()) {
    if (key == name) {
      return std::get<T>(value);
    }
  }
  return {};
}

/// "ok", or the fault and what identifies it: "OsError EACCES", "InvalidParams path", "LimitExceeded read.maxBytes".
/// An outcome other than `executed: no` is told too.
inline std::string describe(const Error& error) {
  std::string text(name_of(error.fault()));
  for (const char* name : {"name", "member", "limit"}) {
    const auto value = fact<std::string>(error, name);
    text += value.empty() ? "" : " " + value;
  }
  static constexpr const char* executed[] = {"", " (executed)", " (unknown)"};
  return text + executed[static_cast<int>(error.was_executed())];
}

inline std::string outcome(const std::function<void()>& work) {
  try {
    work();
    return "ok";
  } catch (const Error& error) {
    return describe(error);
  }
}

inline Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return {Fault::InternalError, ""};
}

/// Runs `work` in a child process; what it returns comes back, or why the child ended otherwise.
inline std::string in_child(const std::function<std::string()>& work) {
  Pipe pipe = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    write_all(pipe.write.get(), work(), "pipe");
    ::_exit(0);
  }
  pipe.write.reset();
  std::string text;
  char piece[4096];
  for (ssize_t n = 0; (n = ::read(pipe.read.get(), piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<std::size_t>(n));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? text : "child ended with status " + std::to_string(status);
}

/// The outcome for a user who owns nothing; root passes every permission check.
inline std::string outcome_as_nobody(const std::function<void()>& work) {
  return in_child([&work]() -> std::string {
    constexpr uid_t nobody = 65534;
    if (::getuid() == 0 && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) {
      return "cannot become another user";
    }
    return outcome(work);
  });
}

/// Runs `work` where it can mount things nobody else sees; skips the test where that is not permitted.
inline std::string in_private_mounts(const std::function<std::string()>& work) {
  const std::string text = in_child([&work]() -> std::string {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return "no mounts";
    }
    return work();
  });
  if (text == "no mounts") {
    SKIP("this user may not make a private mount namespace");
  }
  return text;
}

}  // namespace rex::files
