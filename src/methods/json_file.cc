#include "methods/json_file.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "rpc/json_reader.h"
#include "rpc/json_text.h"

namespace rex::methods {
namespace {

Error at_byte(const std::string& path, std::string_view text, std::size_t byte, const std::string& problem) {
  const std::string_view before = text.substr(0, byte);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  return Error(Fault::InvalidParams, printable(path) + ":" + std::to_string(line) + ": " + problem);
}

/// Where the member is in a text that is JSON, or the innermost that there is on the way to it.
std::size_t place_of(std::string_view text, std::string_view member) {
  struct Level {
    std::string path;
    bool is_object;
    std::size_t items = 0;
  };
  rpc::Scanner in(text);
  std::vector<Level> levels;
  std::size_t found = 0;
  std::size_t found_bytes = 0;  // of its name
  std::string word;
  for (in.skip_space(); !in.at_end(); in.skip_space()) {
    if (in.take(',')) {
      continue;
    }
    if (in.take('}') || in.take(']')) {
      levels.pop_back();
      continue;
    }
    const std::size_t begin = in.offset();
    std::string here;
    if (!levels.empty() && levels.back().is_object) {
      const std::string_view name = in.read_string(word).value_or("");
      here = levels.back().path + (levels.back().path.empty() ? "" : ".") + printable(name);
      in.skip_space();
      in.take(':');
      in.skip_space();
    } else if (!levels.empty()) {
      here = levels.back().path + "[" + std::to_string(levels.back().items++) + "]";
    }
    const bool is_on_the_way =
        member == here || (member.starts_with(here) && (member[here.size()] == '.' || member[here.size()] == '['));
    if (is_on_the_way && here.size() >= found_bytes) {
      found = begin;
      found_bytes = here.size();
    }
    rpc::Number number;
    if (const char first = in.peek(); first == '{' || first == '[') {
      in.next();
      levels.push_back({std::move(here), first == '{'});
    } else {
      in.read_string(word) || in.read_number(&number) || in.take_word("true") || in.take_word("false") ||
          in.take_word("null");
    }
  }
  return found;
}

}  // namespace

nlohmann::json parse_json_file(const std::string& path, const std::string& text) {
  rpc::Document document = rpc::read_json(text, rpc::Limits{});
  if (!document.refused) {
    return std::move(document.root);
  }
  std::string problem = document.refused->message();
  for (const auto& [name, fact] : document.refused->facts()) {
    const auto* const member = std::get_if<std::string>(&fact);
    problem += name == "member" && member != nullptr ? ": " + *member : "";
  }
  throw at_byte(path, text, document.refused_at, problem);
}

Error with_line(const std::string& path, const std::string& text, const Error& error) {
  const std::string& problem = error.message();
  return at_byte(path, text, place_of(text, std::string_view(problem).substr(0, problem.find(": "))), problem);
}

}  // namespace rex::methods
