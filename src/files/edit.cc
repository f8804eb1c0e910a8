#include "files/edit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <list>
#include <set>
#include <utility>

#include "base/error.h"
#include "files/diff.h"
#include "files/entry.h"
#include "files/read.h"
#include "files/replacement.h"
#include "files/stat.h"

namespace rex::files {
namespace {

using FileId = std::pair<dev_t, ino_t>;

/// One file on its way: read, edited, then waiting to take the old one's name.
struct Work {
  Entry entry;
  std::string etag;  // of what was read
  std::string before;
  std::string after;
};

/// Reads and edits in memory. `room` is what the bound leaves.
Work prepare(const FileEdits& file, const std::string& member, std::int64_t& room, std::set<FileId>& seen) {
  check_path(member + "path", file.path);
  Work work{locate(file.path), {}, {}, {}};
  const int directory = work.entry.directory.get();
  Content content = read_whole(directory, work.entry.name, file.path, O_NOFOLLOW, "edit.maxBytes", room);
  check_condition({.if_match = file.if_match}, content.status, file.path);
  if (!seen.emplace(content.status.st_dev, content.status.st_ino).second) {
    throw invalid_params(member + "path", "is a file that was named before; put all its edits together");
  }
  work.etag = etag_of(content.status);
  work.before = std::move(content.bytes);
  work.after = apply(work.before, file.edits, member + "edits", room);
  room -= static_cast<std::int64_t>(std::max(work.before.size(), work.after.size()));
  return work;
}

EditResult describe(const Work& work) {
  const auto before = split_lines(work.before);
  const auto after = split_lines(work.after);
  EditResult result;
  result.path = work.entry.path;
  result.diff = unified_diff(work.entry.path, before, after, compare(before, after));
  result.etag = work.etag;
  result.undo = make_undo(work.before, work.after);
  return result;
}

/// Locks each directory once, in an order all instances share.
std::list<DirectoryLock> lock_directories(const std::deque<Replacement>& replacements) {
  std::vector<std::pair<FileId, const Entry*>> directories;
  for (const Replacement& replacement : replacements) {
    struct ::stat status{};
    if (::fstat(replacement.entry().directory.get(), &status) == 0) {
      directories.emplace_back(FileId{status.st_dev, status.st_ino}, &replacement.entry());
    }
  }
  std::sort(directories.begin(), directories.end());
  std::list<DirectoryLock> locks;
  const FileId* last = nullptr;
  for (const auto& [id, entry] : directories) {
    if (last == nullptr || *last != id) {
      locks.emplace_back(*entry);
    }
    last = &id;
  }
  return locks;
}

/// Every old file gets its name back that can have it; then the first problem is told.
void give_all_back(std::deque<Replacement>& replacements, std::size_t taken) {
  std::optional<Error> problem;
  while (taken > 0) {
    try {
      replacements[--taken].give_back();
    } catch (Error& error) {
      problem = problem ? std::move(problem) : std::move(error);
    }
  }
  if (problem) {
    throw *std::move(problem);
  }
}

/// All take their names, or none.
void take_names(std::deque<Replacement>& replacements, const std::vector<Condition>& conditions) {
  const std::list<DirectoryLock> locks = lock_directories(replacements);
  for (std::size_t i = 0; i < replacements.size(); ++i) {
    replacements[i].check(conditions[i]);
  }
  std::size_t taken = 0;
  try {
    for (; taken < replacements.size(); ++taken) {
      replacements[taken].take_name(false, replacements.size() > 1);
    }
  } catch (const Error&) {
    give_all_back(replacements, taken);
    throw;
  }
}

void check(const EditOptions& options) {
  if (options.files.empty()) {
    throw invalid_params("files", "is empty");
  }
  const auto files = static_cast<std::int64_t>(options.files.size());
  if (files > max_edited_files) {
    throw limit_exceeded("edit.files", files, max_edited_files);
  }
  std::int64_t edits = 0;
  for (const FileEdits& file : options.files) {
    edits += static_cast<std::int64_t>(file.edits.size());
  }
  if (edits > max_edits) {
    throw limit_exceeded("edit.count", edits, max_edits);
  }
}

}  // namespace

std::vector<EditResult> edit(const EditOptions& options) {
  check(options);
  std::vector<Work> works;
  std::vector<EditResult> results;
  std::int64_t room = max_edit_bytes;
  std::set<FileId> seen;
  for (std::size_t i = 0; i < options.files.size(); ++i) {
    const std::string member = options.several ? "files[" + std::to_string(i) + "]." : "";
    works.push_back(prepare(options.files[i], member, room, seen));
    results.push_back(describe(works.back()));
  }
  if (options.dry_run) {
    return results;
  }

  std::deque<Replacement> replacements;
  std::vector<Condition> conditions;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (works[i].before != works[i].after) {
      replacements.emplace_back(std::move(works[i].entry), works[i].after, std::nullopt);
      conditions.push_back({.if_match = works[i].etag});
      which.push_back(i);
    }
  }
  take_names(replacements, conditions);
  for (std::size_t i = 0; i < which.size(); ++i) {
    results[which[i]].etag = etag_of(replacements[i].finish());
  }
  return results;
}

}  // namespace rex::files
