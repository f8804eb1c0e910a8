// Edits on bytes in memory, and their inverse (edit.h). Knows nothing of files.
#include <cstring>
#include <utility>

#include "base/error.h"
#include "files/diff.h"
#include "files/edit.h"

namespace rex::files {
namespace {

/// Linear whatever the texts are, unlike std::string::find.
std::size_t find_bytes(std::string_view text, std::string_view pattern, std::size_t from) {
  if (from > text.size()) {
    return text.npos;
  }
  const void* found = ::memmem(text.data() + from, text.size() - from, pattern.data(), pattern.size());
  return found == nullptr ? text.npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::int64_t count_newlines(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t at = find_bytes(text, "\n", 0); at != text.npos; at = find_bytes(text, "\n", at + 1)) {
    ++count;
  }
  return count;
}

void limit_size(std::size_t size, std::int64_t max_size) {
  if (static_cast<std::int64_t>(size) > max_size) {
    throw limit_exceeded("edit.maxBytes", static_cast<std::int64_t>(size), max_size);
  }
}

[[noreturn]] void throw_absent(std::string_view content, const std::string& pattern, const std::string& member) {
  std::string problem = "does not occur";
  const bool crlf = find_bytes(content, "\r\n", 0) != content.npos;
  if (crlf && find_bytes(pattern, "\n", 0) != pattern.npos && find_bytes(pattern, "\r\n", 0) == pattern.npos) {
    problem += "; the lines of this file end with CR LF, those of the text with LF";
  }
  throw invalid_params(member + ".old", problem).with("matches", std::int64_t{0});
}

[[noreturn]] void throw_ambiguous(std::string_view content, std::string_view pattern, const std::string& member) {
  constexpr std::int64_t most_named = 10;
  constexpr std::int64_t most_counted = 10'000;
  std::string lines;
  std::int64_t count = 0;
  std::int64_t line = 1;
  std::size_t counted_to = 0;
  for (std::size_t at = find_bytes(content, pattern, 0); at != content.npos && count < most_counted;
       at = find_bytes(content, pattern, at + 1)) {
    if (++count <= most_named) {
      line += count_newlines(content.substr(counted_to, at - counted_to));
      counted_to = at;
      lines += (count == 1 ? "" : ", ") + std::to_string(line);
    }
  }
  const std::string more = count > most_named ? ", …" : "";
  const std::string times = std::to_string(count) + (count == most_counted ? " times or more" : " times");
  throw invalid_params(member + ".old",
                       "occurs " + times + ", at lines " + lines + more + "; give more of its surroundings, or all")
      .with("matches", count);
}

std::string apply_replace(std::string content, const Replace& edit, const std::string& member, std::int64_t max_size) {
  const std::string& pattern = edit.old_text;
  if (pattern.empty()) {
    throw invalid_params(member + ".old", "is empty; {line, insert} inserts");
  }
  if (pattern == edit.new_text) {
    throw invalid_params(member + ".new", "is the same as old");
  }
  std::size_t at = find_bytes(content, pattern, 0);
  if (at == content.npos) {
    throw_absent(content, pattern, member);
  }
  if (!edit.all) {
    if (find_bytes(content, pattern, at + 1) != content.npos) {
      throw_ambiguous(content, pattern, member);
    }
    limit_size(content.size() - pattern.size() + edit.new_text.size(), max_size);
    content.replace(at, pattern.size(), edit.new_text);
    return content;
  }
  std::string out;
  std::size_t done = 0;
  for (; at != content.npos; at = find_bytes(content, pattern, done)) {
    out.append(content, done, at - done);
    out += edit.new_text;
    done = at + pattern.size();
    limit_size(out.size(), max_size);
  }
  out.append(content, done);
  limit_size(out.size(), max_size);
  return out;
}

std::string apply_insert(std::string content, const Insert& edit, const std::string& member, std::int64_t max_size) {
  const bool open_end = !content.empty() && content.back() != '\n';
  const std::int64_t lines = count_newlines(content) + (open_end ? 1 : 0);
  if (edit.line < 0 || edit.line > lines + 1) {
    throw invalid_params(member + ".line", "is not 0 to " + std::to_string(lines + 1) + ": the file has " +
                                               std::to_string(lines) + " lines");
  }
  std::size_t at = edit.line == lines + 1 ? content.size() : 0;
  for (std::int64_t line = 1; line < edit.line && edit.line <= lines; ++line) {
    at = find_bytes(content, "\n", at) + 1;
  }
  limit_size(content.size() + edit.text.size(), max_size);
  content.insert(at, edit.text);
  return content;
}

/// One edit that puts `replacement` in the place of `content[from, to)`, which is not empty: that is widened, doubling,
/// until it occurs only there.
Edit splice(std::string_view content, std::size_t from, std::size_t to, std::string_view replacement) {
  std::size_t before = 0;
  std::size_t after = 0;
  for (std::size_t step = 16;; step *= 2) {
    const std::string_view pattern = content.substr(from - before, before + (to - from) + after);
    const std::size_t first = find_bytes(content, pattern, 0);
    const bool whole = pattern.size() == content.size();
    if (whole || find_bytes(content, pattern, first + 1) == content.npos) {
      std::string text(content.substr(from - before, before));
      text += replacement;
      text += content.substr(to, after);
      return Replace{std::string(pattern), std::move(text), false};
    }
    before = std::min(from, before + step);
    after = std::min(content.size() - to, after + step);
  }
}

std::size_t size_of(const Edit& edit) {
  const auto* replace = std::get_if<Replace>(&edit);
  return replace != nullptr ? replace->old_text.size() + replace->new_text.size() : std::get<Insert>(edit).text.size();
}

/// Where each line begins, and after the last one the end.
std::vector<std::size_t> offsets_of(const std::vector<std::string_view>& lines) {
  std::vector<std::size_t> offsets{0};
  for (const std::string_view line : lines) {
    offsets.push_back(offsets.back() + line.size());
  }
  return offsets;
}

}  // namespace

std::string apply(std::string content, const std::vector<Edit>& edits, std::string_view member, std::int64_t max_size) {
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const std::string name = std::string(member) + "[" + std::to_string(i) + "]";
    if (const auto* replace = std::get_if<Replace>(&edits[i])) {
      content = apply_replace(std::move(content), *replace, name, max_size);
    } else {
      content = apply_insert(std::move(content), std::get<Insert>(edits[i]), name, max_size);
    }
  }
  return content;
}

std::optional<std::vector<Edit>> make_undo(std::string_view before, std::string_view after) {
  constexpr std::size_t most_searched = 64;  // each one searches the whole content, more than once
  const auto old_lines = split_lines(before);
  const auto new_lines = split_lines(after);
  std::vector<Change> changes = compare(old_lines, new_lines);
  if (changes.size() > most_searched) {
    const Change& last = changes.back();
    changes = {{changes[0].old_from, last.old_to, changes[0].new_from, last.new_to}};
  }
  const auto old_offsets = offsets_of(old_lines);
  const auto new_offsets = offsets_of(new_lines);
  std::vector<Edit> undo;
  std::size_t bytes = 0;
  std::string content(after);
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {  // from the end: what is before stays put
    std::size_t from = new_offsets[change->new_from];
    std::size_t to = new_offsets[change->new_to];
    std::string_view text =
        before.substr(old_offsets[change->old_from], old_offsets[change->old_to] - old_offsets[change->old_from]);
    if (from == to) {
      undo.emplace_back(Insert{static_cast<std::int64_t>(change->new_from) + 1, std::string(text)});
    } else {
      undo.push_back(splice(content, from, to, text));
    }
    content.replace(from, to - from, text);
    bytes += size_of(undo.back());
    if (bytes > max_undo_bytes) {
      return std::nullopt;
    }
  }
  return undo;
}

}  // namespace rex::files
