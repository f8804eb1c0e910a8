// `file/edit`: exact changes to existing files, one or several at once, with a diff to look at and edits that undo
// them. Works on bytes: line ends, a BOM, NULs and any encoding stay as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rex::files {

inline constexpr std::int64_t max_edit_bytes = 16 << 20;  // `edit.maxBytes`: of all files of a call, before and after
inline constexpr std::int64_t max_edits = 1'000;          // `edit.count`: of all files of a call
inline constexpr std::int64_t max_edited_files = 100;     // `edit.files`
inline constexpr std::size_t max_undo_bytes = 4 << 20;

/// `old_text` becomes `new_text`. It must occur exactly once, overlapping occurrences counted, unless `all`: then every
/// one from the left, at least one, is replaced.
struct Replace {
  std::string old_text;
  std::string new_text;
  bool all = false;
};

/// Puts `text` as it is (no line end is added) before line `line`, counted from 1. The number after the last line's is
/// the end of the file; 0 is its beginning, as is 1.
struct Insert {
  std::int64_t line;
  std::string text;
};

using Edit = std::variant<Replace, Insert>;

/// `edits` applied one after the other, each to what the one before left. InvalidParams names the edit by `member`
/// ("edits" gives "edits[2].old") and says where an ambiguous text occurs; LimitExceeded above `max_size` bytes.
std::string apply(std::string content, const std::vector<Edit>& edits, std::string_view member,
                  std::int64_t max_size = max_edit_bytes);

/// Edits that turn `after` into `before` again, byte for byte; nullopt when they would hold more than max_undo_bytes.
std::optional<std::vector<Edit>> make_undo(std::string_view before, std::string_view after);

struct FileEdits {
  std::string path = {};
  std::vector<Edit> edits = {};
  std::optional<std::string> if_match = {};
};

struct EditOptions {
  std::vector<FileEdits> files = {};
  bool several = false;  // the wire's `files` form: errors then name "files[1].edits[0]"
  bool dry_run = false;  // all but the writing
};

struct EditResult {
  std::string path;
  std::string diff;  // unified_diff()
  std::string etag;  // of the file now; in a dry run, of the file it was made for
  std::optional<std::vector<Edit>> undo;
};

/// All files or none: everything is checked, written beside the files and synced before the first one changes its name,
/// and if one of these renames fails those before it are reverted. (A crash between two renames leaves both names
/// intact files, one old, one new.) A file that was changed since it was read is a Conflict `{etag}`, also without
/// `if_match`. What a file keeps: Replacement. Throws OsError, InvalidParams, Conflict, LimitExceeded.
std::vector<EditResult> edit(const EditOptions& options);

}  // namespace rex::files
