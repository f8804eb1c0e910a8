#include "files/write.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "files/entry.h"
#include "files/replacement.h"
#include "files/tree.h"

namespace rex::files {
namespace {

void check(const WriteOptions& options) {
  check_path("path", options.path);
  if (options.mode && *options.mode > 01777) {
    throw invalid_params("mode", "is not 0 to 01777; setuid and setgid bits are file/setattr's");
  }
  if (options.if_absent && options.if_match) {
    throw invalid_params("ifAbsent", "excludes ifMatch");
  }
}

WriteResult replace(Entry entry, const WriteOptions& options) {
  const Condition condition{options.if_match, options.if_absent};
  check_condition(condition, entry.status(), options.path);  // before the work; again when it counts
  Replacement replacement(std::move(entry), options.data, options.mode);
  WriteResult result;
  {
    const DirectoryLock lock(replacement.entry());
    replacement.check(condition);
    result.created = !replacement.entry().status().has_value();
    replacement.take_name(options.if_absent, false);
  }
  result.stat = to_stat(replacement.finish());
  return result;
}

/// Opens the file to append to, or makes it.
Fd open_to_append(const Entry& entry, const WriteOptions& options, bool& created) {
  constexpr int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  for (;;) {
    const auto old = entry.status();
    created = !old;
    if (old) {
      require_regular(*old, "cannot append to", entry.path);
    }
    Fd file(::openat(entry.directory.get(), entry.name.c_str(), created ? flags | O_CREAT | O_EXCL : flags,
                     options.mode.value_or(0666)));
    const bool lost_a_race = !file && (created ? errno == EEXIST : errno == ENOENT);
    if (lost_a_race) {
      continue;
    }
    if (!file || (created && options.mode && ::fchmod(file.get(), *options.mode) != 0)) {
      throw os_error("cannot append to", errno, entry.path);
    }
    return file;
  }
}

struct ::stat status_of(const Fd& file, const Entry& entry) {
  struct ::stat status{};
  if (::fstat(file.get(), &status) != 0) {
    throw os_error("cannot stat", errno, entry.path);
  }
  require_regular(status, "cannot append to", entry.path);
  return status;
}

/// After `written` of our bytes: removes them, unless others have appended meanwhile.
Error take_back(const Fd& file, const Entry& entry, std::int64_t size_before, std::int64_t written, int error) {
  Error failure = os_error("cannot append to", error, entry.path);
  struct ::stat now{};
  const bool ours_are_last = ::fstat(file.get(), &now) == 0 && now.st_size == size_before + written;
  const bool undone = written == 0 || (ours_are_last && ::ftruncate(file.get(), size_before) == 0);
  return undone ? failure : std::move(failure).executed(Executed::unknown);
}

WriteResult append(const Entry& entry, const WriteOptions& options) {
  const DirectoryLock lock(entry);
  check_condition({options.if_match, options.if_absent}, entry.status(), options.path);
  WriteResult result;
  const Fd file = open_to_append(entry, options, result.created);
  const std::int64_t size_before = status_of(file, entry).st_size;
  std::size_t written = 0;
  while (written < options.data.size()) {
    const ssize_t n = ::write(file.get(), options.data.data() + written, options.data.size() - written);
    if (n >= 0) {
      written += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      Error failure = take_back(file, entry, size_before, static_cast<std::int64_t>(written), errno);
      if (result.created && failure.was_executed() == Executed::no) {
        ::unlinkat(entry.directory.get(), entry.name.c_str(), 0);
      }
      throw failure;
    }
  }
  if (::fsync(file.get()) != 0) {
    throw os_error("cannot sync", errno, entry.path).executed(Executed::unknown);
  }
  struct ::stat status{};
  if (::fstat(file.get(), &status) != 0) {
    throw os_error("cannot stat", errno, entry.path).executed(Executed::yes);
  }
  result.stat = to_stat(status);
  return result;
}

}  // namespace

WriteResult write(const WriteOptions& options) {
  check(options);
  if (options.parents) {
    make_parents(options.path);
  }
  Entry entry = locate(options.path);
  return options.append ? append(entry, options) : replace(std::move(entry), options);
}

}  // namespace rex::files
