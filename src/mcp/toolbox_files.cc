// The tools of the Toolbox (toolbox.h) that are about files and hosts.
#include <algorithm>

#include "base/encoding.h"
#include "mcp/toolbox.h"

namespace rex::mcp {

using nlohmann::json;

namespace {

/// The beginning of `text`, whole characters of at most `max_bytes`.
std::string_view head_of(std::string_view text, std::size_t max_bytes) {
  text = text.substr(0, max_bytes);
  text.remove_suffix(incomplete_utf8_tail(text));
  return text;
}

constexpr std::size_t max_diff_bytes = 16384;

}  // namespace

Task<Outcome> Toolbox::read_file(Use use) {
  const auto max_bytes = use.arguments["maxBytes"].get<std::size_t>();
  const bool by_lines = use.arguments.contains("lines");
  use.arguments.erase("maxBytes");
  if (!by_lines) {
    use.arguments["length"] = max_bytes;
  }
  json read = co_await forward("file/read", std::move(use));
  std::string bytes = read["data"].get<std::string>();
  if (read["encoding"] == "base64") {  // no text, or a character was cut
    bytes = from_base64(bytes).value_or("");
  }
  bytes = head_of(bytes, max_bytes);
  const auto from = read["from"].get<std::uint64_t>();
  const auto asked_to = read["next"].get<std::uint64_t>();
  const std::uint64_t next = from + bytes.size();
  const std::string size = read["size"].dump();
  if (!is_utf8(bytes)) {
    json data{{"binary", true}, {"size", read["size"]}, {"etag", read["etag"]}};
    std::string text = "[binary, no UTF-8: " + size + " bytes; run file, xxd or another program on it]";
    co_return Outcome{std::move(text), std::move(data)};
  }
  std::string text = bytes;
  if (next < asked_to || (!by_lines && next < read["size"])) {
    text = with_line(text, "[bytes " + std::to_string(from) + " to " + std::to_string(next) + " of " + size +
                               "; go on with offset " + std::to_string(next) + "]");
  } else if (bytes.empty()) {
    text = "[nothing there; the file has " + size + " bytes]";
  }
  read["data"] = std::move(bytes);
  read["encoding"] = "utf-8";
  read["next"] = next;
  co_return Outcome{std::move(text), std::move(read)};
}

Task<Outcome> Toolbox::edit_file(Use use) {
  const bool dry = use.arguments["dryRun"].get<bool>();
  json done = co_await forward("file/edit", std::move(use));
  done.erase("undo");
  const auto diff = done["diff"].get<std::string>();
  std::string text(head_of(diff, max_diff_bytes));
  if (text.size() < diff.size()) {
    text = with_line(text, "[" + std::to_string(diff.size() - text.size()) + " bytes more of the diff left out]");
    done["diff"] = head_of(diff, max_diff_bytes);
    done["diffBytes"] = diff.size();
  }
  co_return Outcome{with_line(text, dry ? "[not written: dryRun]" : "[written]"), std::move(done)};
}

Task<Outcome> Toolbox::write_file(Use use) {
  json done = co_await forward("file/write", std::move(use));
  std::string text = done["created"].get<bool>() ? "[created, " : "[replaced, now ";
  text += done["size"].dump() + " bytes]";
  co_return Outcome{std::move(text), std::move(done)};
}

Task<Outcome> Toolbox::list_files(Use use) { return shown_by(text_of_entries, "file/list", std::move(use)); }

Task<Outcome> Toolbox::search(Use use) {
  const auto max_bytes = use.arguments["maxOutputBytes"].get<std::size_t>();
  use.arguments.erase("maxOutputBytes");
  json found = co_await forward("file/search", std::move(use));
  std::string text = text_of_search(found, max_bytes);
  co_return Outcome{std::move(text), std::move(found)};
}

Task<Outcome> Toolbox::hosts(Use use) { return shown_by(text_of_hosts, "host/list", std::move(use)); }

Task<Outcome> Toolbox::connect_host(Use use) {
  if (use.arguments.contains("image")) {
    use.arguments["options"] = {{"image", use.arguments["image"]}};
    use.arguments.erase("image");
  }
  if (!use.progress_token.is_null()) {
    use.arguments["progressToken"] = use.progress_token;
  }
  const std::string host = use.arguments.value("host", "");
  json info = co_await forward("host/connect", std::move(use));
  const std::string path = (host.empty() ? "" : host + "/") + info["name"].get<std::string>();
  std::string text = "[" + path + " is " + info["state"].get<std::string>() + ", reached by " +
                     printable(info["took"].get<std::string>()) + "; name it as host]";
  co_return Outcome{std::move(text), std::move(info)};
}

}  // namespace rex::mcp
