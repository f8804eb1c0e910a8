#include "mcp/tools.h"

#include "base/error.h"

namespace rex::mcp {

using nlohmann::json;

namespace {

// A property "$x" is that of `shared`. Every word here is paid for by each conversation of each agent.
constexpr const char* shared_text = R"json({
  "session": {"type": "string", "default": "main", "minLength": 1,
    "description": "A shell that keeps its directory, variables and jobs; run makes it on first use."},
  "host": {"type": "string", "default": "",
    "description": "Where: a name that `hosts` lists, or a path of them (a/b); empty is this machine."},
  "waitMs": {"type": "integer", "default": 30000, "minimum": 0, "maximum": 600000,
    "description": "How long this call waits. Nothing is stopped when it is over."},
  "maxOutputBytes": {"type": "integer", "default": 16384, "minimum": 0, "maximum": 1048576,
    "description": "Of longer output you get the beginning and the end."},
  "path": {"type": "string", "minLength": 1,
    "description": "Absolute, or relative to where rex-rpc was started; not to a session's directory."}
})json";

constexpr const char* tools_text = R"json([
  {"name": "run", "title": "Run a command",
   "description": "Run a shell command in a persistent session and get its output and exit code. Returns when it ends, waits for input, or waitMs is over (then it goes on: see wait, interrupt). One command at a time per session; use other session names for more at once.",
   "annotations": {"destructiveHint": true, "openWorldHint": true},
   "inputSchema": {"type": "object", "required": ["command"], "additionalProperties": false, "properties": {
     "command": {"type": "string", "description": "Any number of lines, as in a script."},
     "interactive": {"type": "boolean", "default": false,
       "description": "Type it as a line into the program that has the terminal (a prompt, python, gdb), and return when that has read it and waits again."},
     "waitMs": "$waitMs",
     "timeoutMs": {"type": "integer", "minimum": 1, "maximum": 86400000, "description": "Kill the command when it lives longer. Absent: never."},
     "maxOutputBytes": "$maxOutputBytes", "session": "$session", "host": "$host"}}},
  {"name": "wait", "title": "Wait for a command",
   "description": "Wait until the running command ends or waits for input, or for one of the other conditions given. Shows what it wrote since the last answer.",
   "annotations": {"readOnlyHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
     "match": {"type": "string", "description": "Until its output matches this RE2 pattern."},
     "listening": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "Until it listens on this TCP port."},
     "file": {"type": "string", "description": "Until this path exists."},
     "quietMs": {"type": "integer", "minimum": 1, "maximum": 600000, "description": "Until it has written nothing for so long."},
     "from": {"type": "integer", "minimum": 0, "description": "Show output from this offset on. Absent: what no answer has shown yet."},
     "waitMs": "$waitMs", "maxOutputBytes": "$maxOutputBytes", "session": "$session", "host": "$host"}}},
  {"name": "write", "title": "Type into a session",
   "description": "Send raw input or keys to the program that has the terminal. For whole lines prefer run with interactive.",
   "annotations": {"destructiveHint": true, "openWorldHint": true},
   "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
     "data": {"type": "string", "default": ""},
     "keys": {"type": "array", "items": {"type": "string"}, "default": [],
       "description": "Pressed after data: Enter, Tab, Escape, Up, PageDown, F5, C-c, M-x, or single characters."},
     "submit": {"type": "boolean", "default": false, "description": "Press Enter at the end."},
     "eof": {"type": "boolean", "default": false, "description": "Then end the input (Ctrl-D)."},
     "session": "$session", "host": "$host"}}},
  {"name": "read_output", "title": "Read a session's output",
   "description": "Read from the record of everything a session wrote, by byte offset.",
   "annotations": {"readOnlyHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
     "offset": {"type": "integer", "minimum": 0, "description": "Absent: the last maxBytes."},
     "maxBytes": {"type": "integer", "default": 16384, "minimum": 1, "maximum": 1048576},
     "session": "$session", "host": "$host"}}},
  {"name": "interrupt", "title": "Interrupt a command",
   "description": "Press Ctrl-C on the running command, and show what it wrote since the last answer.",
   "annotations": {"destructiveHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
     "escalate": {"type": "boolean", "default": false, "description": "If it does not end, terminate and then kill it."},
     "maxOutputBytes": "$maxOutputBytes", "session": "$session", "host": "$host"}}},
  {"name": "screen", "title": "Look at the screen",
   "description": "The terminal as a person would see it now: for editors, pagers and other full-screen programs.",
   "annotations": {"readOnlyHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
     "session": "$session", "host": "$host"}}},
  {"name": "sessions", "title": "List sessions",
   "description": "Every session on a host: its state, directory and running command.",
   "annotations": {"readOnlyHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "additionalProperties": false, "properties": {"host": "$host"}}},
  {"name": "close_session", "title": "Close a session",
   "description": "End a session and every process it started.",
   "annotations": {"destructiveHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "required": ["session"], "additionalProperties": false, "properties": {
     "session": {"type": "string", "minLength": 1}, "host": "$host"}}},
  {"name": "read_file", "title": "Read a file",
   "description": "Read a text file, or a range of its lines or bytes.",
   "annotations": {"readOnlyHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "required": ["path"], "additionalProperties": false, "properties": {
     "path": "$path",
     "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2,
       "description": "First and last line, from 1."},
     "offset": {"type": "integer", "minimum": 0, "description": "First byte; not with lines."},
     "maxBytes": {"type": "integer", "default": 65536, "minimum": 1, "maximum": 1048576},
     "host": "$host"}}},
  {"name": "edit_file", "title": "Edit a file",
   "description": "Replace or insert text in a file: all edits, in this order, or none. Shows the diff.",
   "annotations": {"destructiveHint": true, "idempotentHint": false, "openWorldHint": false},
   "inputSchema": {"type": "object", "required": ["path", "edits"], "additionalProperties": false, "properties": {
     "path": "$path",
     "edits": {"type": "array", "minItems": 1, "items": {"type": "object", "additionalProperties": false, "properties": {
       "old": {"type": "string", "description": "Must be in the file exactly once, unless all."},
       "new": {"type": "string"},
       "all": {"type": "boolean"},
       "line": {"type": "integer", "minimum": 0, "description": "Instead of old and new: put insert before this line, from 1."},
       "insert": {"type": "string"}}}},
     "dryRun": {"type": "boolean", "default": false, "description": "Only show the diff."},
     "host": "$host"}}},
  {"name": "write_file", "title": "Write a file",
   "description": "Write a whole file in one step; missing directories are made.",
   "annotations": {"destructiveHint": true, "idempotentHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "required": ["path", "data"], "additionalProperties": false, "properties": {
     "path": "$path", "data": {"type": "string"},
     "ifAbsent": {"type": "boolean", "default": false, "description": "Refuse to replace a file."},
     "host": "$host"}}},
  {"name": "list_files", "title": "List a directory",
   "description": "The entries of a directory with type and size.",
   "annotations": {"readOnlyHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "required": ["path"], "additionalProperties": false, "properties": {
     "path": "$path",
     "limit": {"type": "integer", "default": 200, "minimum": 1, "maximum": 10000},
     "cursor": {"type": "string", "description": "From the answer before, for more."},
     "host": "$host"}}},
  {"name": "search", "title": "Search files",
   "description": "Find lines by a pattern, or files by their names, in a tree. Hidden files too; not .git, not binary files.",
   "annotations": {"readOnlyHint": true, "openWorldHint": false},
   "inputSchema": {"type": "object", "required": ["path"], "additionalProperties": false, "properties": {
     "path": "$path",
     "pattern": {"type": "string", "description": "RE2; (?i) ignores case. Absent: list the files that glob means."},
     "glob": {"type": "string", "minLength": 1, "description": "Which files: *.py at any depth, src/**/*.{cc,h} from path."},
     "context": {"type": "integer", "default": 0, "minimum": 0, "maximum": 20, "description": "Lines around each match."},
     "maxResults": {"type": "integer", "default": 100, "minimum": 1, "maximum": 10000},
     "maxOutputBytes": {"type": "integer", "default": 16384, "minimum": 1, "maximum": 1048576},
     "host": "$host"}}},
  {"name": "hosts", "title": "List hosts",
   "description": "The machines that can be named as host, and how they are.",
   "annotations": {"readOnlyHint": true, "openWorldHint": true},
   "inputSchema": {"type": "object", "additionalProperties": false, "properties": {"host": "$host"}}},
  {"name": "connect_host", "title": "Connect a host",
   "description": "Reach another machine or container and give it a name. Exactly one of url, argv and deployment.",
   "annotations": {"destructiveHint": false, "idempotentHint": true, "openWorldHint": true},
   "inputSchema": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {
     "name": {"type": "string", "minLength": 1},
     "url": {"type": "string", "description": "ssh://[user@]host[:port], tcp://127.0.0.1:port or unix:///path"},
     "argv": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "A program that leads to a shell there, as [\"docker\", \"exec\", \"-i\", \"web\", \"sh\"]."},
     "deployment": {"type": "string", "description": "docker or podman: make a new container of image, which ends with this connection."},
     "image": {"type": "string"},
     "host": "$host"}}}
])json";

json read_tools() {
  const json shared = json::parse(shared_text);
  json tools = json::parse(tools_text);
  for (json& tool : tools) {
    for (json& property : tool["inputSchema"]["properties"]) {
      if (property.is_string()) {
        property = shared.at(property.get<std::string>().substr(1));
      }
    }
  }
  return tools;
}

bool has_type(const json& value, const std::string& type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "boolean" ? value.is_boolean()
                             : value.is_number_integer();
}

std::string listed(const json& names) {
  std::string text;
  for (const auto& [name, schema] : names.items()) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::optional<std::string> problem_at(const std::string& place, const json& schema, const json& value);

std::optional<std::string> problem_with_members(const std::string& place, const json& schema, const json& object) {
  const json& known = schema["properties"];
  for (const auto& [name, member] : object.items()) {
    const std::string where = place + (place.empty() ? "" : ".") + printable(name);
    if (!known.contains(name)) {
      return where + " is not known here; there are: " + listed(known);
    }
    if (member.is_null()) {
      continue;  // the same as absent
    }
    if (const auto problem = problem_at(where, known[name], member)) {
      return problem;
    }
  }
  for (const json& name : schema.value("required", json::array())) {
    const auto member = object.find(name.get<std::string>());
    if (member == object.end() || member->is_null()) {
      return place + (place.empty() ? "" : ".") + name.get<std::string>() + " is missing";
    }
  }
  return std::nullopt;
}

std::optional<std::string> problem_at(const std::string& place, const json& schema, const json& value) {
  const auto type = schema["type"].get<std::string>();
  if (!has_type(value, type)) {
    return place + " must be " + (type == "string" || type == "boolean" ? "a " : "an ") + type;
  }
  if (value.is_object()) {
    return problem_with_members(place, schema, value);
  }
  if (value.is_number()) {
    const auto number = value.get<double>();
    const bool low = schema.contains("minimum") && number < schema["minimum"].get<double>();
    const bool high = schema.contains("maximum") && number > schema["maximum"].get<double>();
    if (low || high) {
      return place + " must be at " + (low ? "least " : "most ") + schema[low ? "minimum" : "maximum"].dump();
    }
  }
  if (value.is_string() && value.get_ref<const std::string&>().size() < schema.value("minLength", 0u)) {
    return place + " must not be empty";
  }
  if (value.is_array()) {
    if (value.size() < schema.value("minItems", 0u) || value.size() > schema.value("maxItems", value.size())) {
      return place + " must have " + (schema.contains("maxItems") ? "exactly " : "at least ") +
             schema["minItems"].dump() + (schema["minItems"] == 1 ? " element" : " elements");
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (const auto problem = problem_at(place + "[" + std::to_string(i) + "]", schema["items"], value[i])) {
        return problem;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

const json& all_tools() {
  static const json tools = read_tools();
  return tools;
}

const json* find_tool(std::string_view name) {
  for (const json& tool : all_tools()) {
    if (tool["name"].get_ref<const std::string&>() == name) {
      return &tool;
    }
  }
  return nullptr;
}

std::optional<std::string> problem_with(const json& schema, const json& arguments) {
  return problem_at("", schema, arguments);
}

json with_defaults(const json& schema, const json& arguments) {
  json all = json::object();
  for (const auto& [name, property] : schema["properties"].items()) {
    const auto given = arguments.find(name);
    if (given != arguments.end() && !given->is_null()) {
      all[name] = *given;
    } else if (property.contains("default")) {
      all[name] = property["default"];
    }
  }
  return all;
}

}  // namespace rex::mcp
