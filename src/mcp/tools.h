// What a model may call, as tools/list tells it, and whether arguments are what a tool takes. Data and pure functions;
// knows nothing of what a tool does.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rex::mcp {

/// The tools, in the order in which they are listed; each is a Tool of the specification.
const nlohmann::json& all_tools();

/// The tool of that name; null if there is none.
const nlohmann::json* find_tool(std::string_view name);

/// What is wrong with `arguments`, in words that a model can act on; nullopt if nothing is. Of JSON Schema it knows
/// what the schemas of all_tools() use.
std::optional<std::string> problem_with(const nlohmann::json& schema, const nlohmann::json& arguments);

/// `arguments` with the defaults of the schema where they are absent or null.
nlohmann::json with_defaults(const nlohmann::json& schema, const nlohmann::json& arguments);

}  // namespace rex::mcp
