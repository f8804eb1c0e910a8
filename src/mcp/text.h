// Results of the service as text for a model: what was written, then one line in brackets that says how things stand,
// what was left out and how to read it. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rex::mcp {

/// A session as a tool call names it.
struct Place {
  std::string session;
  std::string host;
};

/// A RunResult: its output with the gap marked, and its end or state.
std::string text_of_run(const nlohmann::json& result);

/// `output` with a line that stands for what was omitted (Omitted, or null).
std::string with_gap(const std::string& output, const nlohmann::json& omitted, const Place& place);

/// The last line shown, for one who waits: `waiting` is a Waiting.
std::string text_of_waiting(const nlohmann::json& waiting);

std::string text_of_screen(const nlohmann::json& screen);
std::string text_of_sessions(const nlohmann::json& list);
std::string text_of_entries(const nlohmann::json& list);
std::string text_of_hosts(const nlohmann::json& list);

/// As grep has it. Matches that would make it longer than `max_bytes` are taken out of `found`, and counted in the last
/// line.
std::string text_of_search(nlohmann::json& found, std::size_t max_bytes);

/// An error with what can be done about it.
std::string text_of_error(const Error& error);

/// "12 ms", "1.2 s", "3 min 4 s".
std::string text_of_time(std::int64_t milliseconds);

/// `text` and then `line` as a line of its own.
std::string with_line(std::string text, std::string_view line);

/// A string that may have come as bytes: `object[name]`, or what base64 of `object[name + "Bytes"]` shows.
std::string shown(const nlohmann::json& object, const std::string& name);

}  // namespace rex::mcp
