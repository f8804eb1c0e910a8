#include "mcp/text.h"

#include <algorithm>
#include <cstdio>

#include "base/encoding.h"

namespace rex::mcp {

using nlohmann::json;

namespace {

/// The arguments of a call, as they are to be written; `host` only where it matters.
std::string arguments(json members, const Place& place) {
  if (place.session != "main") {
    members["session"] = place.session;
  }
  if (!place.host.empty()) {
    members["host"] = place.host;
  }
  return members.dump();
}

std::string processes(const json& list) {
  std::string text;
  for (const json& process : list) {
    text += (text.empty() ? "" : ", ") + process["pid"].dump() + " " + printable(shown(process, "command"), 100);
  }
  return text;
}

std::string end_of(const json& result) {
  const std::string after = " after " + text_of_time(result["durationMs"].get<std::int64_t>());
  const auto state = result["state"].get<std::string>();
  if (state == "exited" || state == "shellExited") {
    const std::string who = state == "exited" ? "exit " : "the shell itself ended; exit ";
    std::string text = who + (result["exitCode"].is_null() ? "code unknown" : result["exitCode"].dump()) + after;
    if (const json& codes = result["pipeStatus"]; codes.size() > 1) {
      text += "; of the pipe " + codes.dump();
    }
    return text;
  }
  if (state == "signaled") {
    return "ended by signal " + result["signal"].get<std::string>() + after;
  }
  if (state == "running") {
    return "still running" + after + ", and goes on: use wait, interrupt, or another session meanwhile";
  }
  if (state == "waitingInput" && !result["waiting"].is_null()) {
    return text_of_waiting(result["waiting"]);
  }
  if (state == "stopped") {
    return "stopped (suspended)" + after + ": bg or fg in the session continues it";
  }
  if (state == "timedOut") {
    return "killed because timeoutMs was over," + after;
  }
  return state + after;  // matched, cancelled, lost
}

std::string remarks_of(const json& result) {
  std::string text;
  if (const json& fault = result["syntaxError"]; !fault.is_null()) {
    text += "; syntax error in line " + fault["line"].dump() +
            (fault["ranBefore"].get<bool>() ? ", the lines before have run" : ", nothing has run");
  }
  if (const json& restarted = result["restarted"]; !restarted.is_null()) {
    text += "; this is a new shell, the one before is gone (" + printable(restarted["cause"].get<std::string>()) +
            "), with its variables";
  }
  if (!result["survivors"].empty()) {
    text += "; left running: " + processes(result["survivors"]);
  }
  if (!result["interleaved"].empty()) {
    text += "; the output may hold lines of: " + processes(result["interleaved"]);
  }
  if (result["replaced"] != 0) {
    text += "; " + result["replaced"].dump() + " bytes were no text";
  }
  for (const json& warning : result.value("warnings", json::array())) {
    text += "; " + printable(warning.get<std::string>());
  }
  if (result["completion"] == "heuristic") {
    text += "; guessed, this shell cannot be asked";
  }
  return text;
}

}  // namespace

std::string text_of_time(std::int64_t milliseconds) {
  char text[64];
  if (milliseconds < 1000) {
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(milliseconds));
  } else if (milliseconds < 60'000) {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(milliseconds) / 1000);
  } else {
    const long long seconds = milliseconds / 1000;
    std::snprintf(text, sizeof text, "%lld min %lld s", seconds / 60, seconds % 60);
  }
  return text;
}

std::string with_line(std::string text, std::string_view line) {
  if (!text.empty() && text.back() != '\n') {
    text += '\n';
  }
  return text.append(line);
}

std::string shown(const json& object, const std::string& name) {
  if (const auto text = object.find(name); text != object.end() && text->is_string()) {
    return *text;
  }
  const auto bytes = object.find(name + "Bytes");
  return bytes == object.end() ? "" : printable(from_base64(bytes->get<std::string>()).value_or(""), 4096);
}

std::string text_of_waiting(const json& waiting) {
  const auto kind = waiting["kind"].get<std::string>();
  const std::string asks = printable(shown(waiting, "command"), 100) + " waits for ";
  const std::string prompt = printable(waiting["text"].get<std::string>());
  if (kind == "line") {
    return asks + "a line of input, after \"" + prompt + "\": answer with run and interactive, or interrupt it";
  }
  if (kind == "secret") {
    return asks + "a secret, after \"" + prompt +
           "\": a person can type it (`rex-rpc sessions` lists this session, `rex-rpc shell` opens it), or interrupt "
           "it";
  }
  return asks + "keys (" + kind + "): look with screen, type with write";
}

std::string with_gap(const std::string& output, const json& omitted, const Place& place) {
  if (omitted.is_null()) {
    return output;
  }
  const auto at = std::min(omitted["at"].get<std::size_t>(), output.size());
  const std::string call = arguments({{"offset", omitted["from"]}}, place);
  const std::string gap = "[" + omitted["bytes"].dump() + " bytes left out here: read_output " + call +
                          " reads them, to " + omitted["to"].dump() + "]";
  return with_line(output.substr(0, at), gap) + "\n" + output.substr(at);
}

std::string text_of_run(const json& result) {
  const Place place{result["session"], result["host"]};
  std::string line = "[" + end_of(result) + remarks_of(result);
  if (result["state"] == "exited" && !shown(result, "cwd").empty()) {
    line += "; in " + printable(shown(result, "cwd"), 1024);
  }
  return with_line(with_gap(result["output"], result["omitted"], place), line + "]");
}

std::string text_of_screen(const json& screen) {
  std::string text;
  std::size_t blank = 0;
  for (const json& row : screen["lines"]) {
    if (row.get_ref<const std::string&>().empty()) {
      ++blank;
      continue;
    }
    text.append(blank, '\n');
    blank = 0;
    text += row.get_ref<const std::string&>() + "\n";
  }
  const json& cursor = screen["cursor"];
  std::string line = "[" + screen["rows"].dump() + " rows, " + screen["cols"].dump() + " columns; cursor in row " +
                     std::to_string(cursor["row"].get<int>() + 1) + ", column " +
                     std::to_string(cursor["col"].get<int>() + 1);
  line += screen["alternate"].get<bool>() ? "; full-screen program" : "";
  line += screen["complete"].get<bool>() ? "" : "; parts drawn earlier may be missing";
  return with_line(text, line + "]");
}

std::string text_of_sessions(const json& list) {
  std::string text;
  for (const json& info : list["sessions"]) {
    text += info["session"].get<std::string>() + "  " + info["state"].get<std::string>() + "  in " +
            printable(shown(info, "cwd"), 1024);
    if (!info["foreground"].is_null() && !info["job"].is_null()) {
      text += "  runs " + printable(shown(info["foreground"], "command"), 200);
    }
    text += "\n";
  }
  return text.empty() ? "[no sessions; run makes one]" : text;
}

std::string text_of_entries(const json& list) {
  std::string text;
  for (const json& entry : list["entries"]) {
    const auto type = entry["type"].get<std::string>();
    text += printable(shown(entry, "name"), 1024);
    if (type == "directory") {
      text += "/\n";
    } else if (type == "file") {
      text += "  " + entry["size"].dump() + " bytes\n";
    } else {
      text += "  " + type + (type == "symlink" ? " to " + printable(shown(entry, "target"), 1024) : "") + "\n";
    }
  }
  const std::string count = std::to_string(list["entries"].size());
  if (const auto cursor = list.find("cursor"); cursor != list.end()) {
    return text + "[" + count + " entries, and there are more: cursor " + cursor->dump() + "]";
  }
  return text + "[" + count + " entries]";
}

std::string text_of_hosts(const json& list) {
  std::string text;
  for (const json& info : list["hosts"]) {
    const auto url = info["url"].get<std::string>();
    text += info["name"].get<std::string>() + "  " + info["state"].get<std::string>();
    text += url.empty() ? "" : "  " + printable(url);
    text += info.contains("detail") ? "  (" + printable(info["detail"].get<std::string>()) + ")\n" : "\n";
  }
  if (const auto detail = list.find("detail"); detail != list.end()) {
    text += "[the user's file of hosts cannot be used: " + printable(detail->get<std::string>()) + "]\n";
  }
  return text.empty() ? "[no hosts but this machine; connect_host reaches one]" : text;
}

std::string text_of_search(json& found, std::size_t max_bytes) {
  std::string text;
  json& matches = found["matches"];
  std::size_t shown_matches = 0;
  for (const json& match : matches) {
    const std::string path = printable(shown(match, "path"), 4096);
    std::string lines;
    if (!match.contains("line")) {
      lines = path + "\n";
    } else {
      const auto number = match["line"].get<std::int64_t>();
      const json before = match.value("before", json::array());
      const json after = match.value("after", json::array());
      auto at = number - static_cast<std::int64_t>(before.size());
      for (const json& line : before) {
        lines += path + "-" + std::to_string(at++) + "-" + shown(line, "text") + "\n";
      }
      lines += path + ":" + std::to_string(at++) + ":" + shown(match, "text") + "\n";
      for (const json& line : after) {
        lines += path + "-" + std::to_string(at++) + "-" + shown(line, "text") + "\n";
      }
      lines += before.empty() && after.empty() ? "" : "--\n";
    }
    if (text.size() + lines.size() > max_bytes) {
      break;
    }
    text += lines;
    ++shown_matches;
  }
  const std::size_t cut = matches.size() - shown_matches;
  matches.erase(matches.begin() + static_cast<std::ptrdiff_t>(shown_matches), matches.end());
  const bool more = found["truncated"].get<bool>();
  std::string line = "[" + std::to_string(shown_matches) + " matches in " + found["files"].dump() + " files";
  line += cut != 0 ? "; " + std::to_string(cut) + " more found and not shown" : "";
  line += more ? "; the search ended at maxResults, there are more" : "";
  line += cut != 0 || more ? ": narrow pattern, glob or path, or ask for more" : "";
  line += found["binary"] != 0 ? "; binary, not searched: " + found["binary"].dump() : "";
  line += found["unreadable"] != 0 ? "; unreadable: " + found["unreadable"].dump() : "";
  return with_line(text, line + "]");
}

std::string text_of_error(const Error& error) {
  std::string text = std::string(name_of(error.fault())) + ": " + error.message();
  switch (error.fault()) {
    case Fault::SessionNotFound: return text + ". `sessions` lists those there are; run makes one.";
    case Fault::SessionBusy: return text + ". Or use another session.";
    case Fault::SessionEnded: return text + ". Close it, or use another session.";
    case Fault::OffsetGone: return text + ". Without offset read_output has the newest.";
    case Fault::HostNotFound: return text + ". `hosts` lists those there are; connect_host reaches one.";
    case Fault::NotWriter: return text + ". A person is typing there; use another session, or wait.";
    case Fault::HostLost: return text + ". Call again to reach it anew; what ran there may have run.";
    default: return text;
  }
}

}  // namespace rex::mcp
