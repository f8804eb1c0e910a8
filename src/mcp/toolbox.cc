#include "mcp/toolbox.h"

#include <algorithm>
#include <optional>

#include "base/encoding.h"
#include "rpc/message.h"

namespace rex::mcp {

using nlohmann::json;

namespace {

Place place_of(const json& arguments) { return {arguments.value("session", ""), arguments.value("host", "")}; }

/// The members that the service is to have as they are.
json chosen(const json& arguments, std::initializer_list<const char*> names) {
  json params = json::object();
  for (const char* const name : names) {
    if (const auto member = arguments.find(name); member != arguments.end()) {
      params[name] = *member;
    }
  }
  return params;
}

Outcome outcome_of(const Error& error) {
  json data = json::parse(rpc::error_object(error));
  return {text_of_error(error), json{{"error", std::move(data)}}, true};
}

}  // namespace

const std::map<std::string, Toolbox::Tool>& Toolbox::tools() {
  static const std::map<std::string, Tool> tools{
      {"run", &Toolbox::run},
      {"wait", &Toolbox::wait},
      {"write", &Toolbox::write},
      {"read_output", &Toolbox::read_output},
      {"interrupt", &Toolbox::interrupt},
      {"screen", &Toolbox::screen},
      {"sessions", &Toolbox::sessions},
      {"close_session", &Toolbox::close_session},
      {"read_file", &Toolbox::read_file},
      {"edit_file", &Toolbox::edit_file},
      {"write_file", &Toolbox::write_file},
      {"list_files", &Toolbox::list_files},
      {"search", &Toolbox::search},
      {"hosts", &Toolbox::hosts},
      {"connect_host", &Toolbox::connect_host},
  };
  return tools;
}

Task<Outcome> Toolbox::use(std::string name, Use use) {
  const Tool tool = tools().at(name);
  try {
    co_return co_await (this->*tool)(std::move(use));
  } catch (const Error& error) {
    if (error.fault() == Fault::RequestCancelled) {
      throw;
    }
    co_return outcome_of(error);
  }
}

Task<json> Toolbox::ask(std::string method, json params, std::string host, Cancel* cancel) {
  if (!host.empty()) {
    params["host"] = std::move(host);
  }
  const std::shared_ptr<rpc::Connection> service = service_.lock();
  if (!service) {
    throw Error(Fault::HostLost, "the instance has ended");
  }
  co_return co_await service->call(std::move(method), std::move(params), cancel);
}

/// All arguments of the call as the params of a request.
Task<json> Toolbox::forward(std::string method, Use use) {
  std::string host = use.arguments.value("host", "");
  use.arguments.erase("host");
  co_return co_await ask(std::move(method), std::move(use.arguments), std::move(host), use.cancel);
}

/// The whole answer, with its text before it.
Task<Outcome> Toolbox::shown_by(std::string (*text_of)(const json&), std::string method, Use use) {
  json answer = co_await forward(std::move(method), std::move(use));
  std::string text = text_of(answer);
  co_return Outcome{std::move(text), std::move(answer)};
}

std::uint64_t Toolbox::unseen_from(const Place& place, std::uint64_t otherwise) const {
  const auto seen = seen_.find({place.host, place.session});
  return seen == seen_.end() ? otherwise : seen->second;
}

void Toolbox::saw(const Place& place, std::uint64_t next) { seen_[{place.host, place.session}] = next; }

Task<> Toolbox::make_session(Use use) {
  const Place place = place_of(use.arguments);
  json params{{"session", place.session}};
  try {
    co_await ask("session/create", std::move(params), place.host, use.cancel);
    seen_.erase({place.host, place.session});
  } catch (const Error& error) {
    if (error.fault() != Fault::SessionExists) {  // another call has just made it
      throw;
    }
  }
}

Task<Outcome> Toolbox::run(Use use) {
  const Place place = place_of(use.arguments);
  json params = chosen(use.arguments, {"session", "command", "interactive", "waitMs", "timeoutMs", "maxOutputBytes"});
  if (!use.progress_token.is_null()) {
    params["progressToken"] = use.progress_token;
  }
  std::optional<json> result;
  try {
    result = co_await ask("session/run", params, place.host, use.cancel);
  } catch (const Error& error) {
    if (error.fault() != Fault::SessionNotFound) {
      throw;
    }
  }
  if (!result) {
    co_await make_session(use);
    result = co_await ask("session/run", std::move(params), place.host, use.cancel);
  }
  saw(place, (*result)["next"].get<std::uint64_t>());
  Outcome outcome{text_of_run(*result), {}};
  outcome.data = std::move(*result);
  co_return outcome;
}

/// The text of the journal between two offsets, `max_bytes` long at most; `to` is where its reading is to end.
Task<std::string> Toolbox::read_text(Place place, std::uint64_t from, std::uint64_t to, std::size_t max_bytes,
                                     Cancel* cancel) {
  std::string text;
  std::uint64_t wanted = std::min<std::uint64_t>(to - from, max_bytes);
  while (wanted > 0) {
    json params{{"session", place.session}, {"offset", from}, {"maxBytes", wanted}, {"view", "clean"}};
    json read = co_await ask("session/read", std::move(params), place.host, cancel);
    text = read["data"].get<std::string>();
    if (text.size() <= max_bytes) {
      break;
    }
    wanted /= 3;  // bytes that are no text are shown by three each
  }
  co_return text;
}

/// Puts into a RunResult the head and the tail of what was written from `from` on.
Task<> Toolbox::take_excerpt(json& result, Place place, std::uint64_t from, std::size_t max_bytes, Cancel* cancel) {
  const auto next = result["next"].get<std::uint64_t>();
  const std::size_t half = max_bytes / 2;
  const bool whole = next - from <= max_bytes;
  std::string head = co_await read_text(place, from, next, whole ? max_bytes : half, cancel);
  result["from"] = from;
  result["totalBytes"] = next - from;
  result["omitted"] = nullptr;
  if (!whole) {
    const std::uint64_t to = next - half;
    result["omitted"] = {{"bytes", to - from - half}, {"from", from + half}, {"to", to}, {"at", head.size()}};
    head += co_await read_text(place, to, next, half, cancel);
  }
  result["output"] = std::move(head);
}

/// Of a RunResult that tells the whole job, what is from `from` on and as long as was asked.
Task<Outcome> Toolbox::outcome_of_run(json result, Use use, std::uint64_t from) {
  const Place place = place_of(use.arguments);
  const auto max_bytes = use.arguments["maxOutputBytes"].get<std::size_t>();
  const auto next = result["next"].get<std::uint64_t>();
  from = std::clamp(from, result["from"].get<std::uint64_t>(), next);
  if (from != result["from"] || !result["omitted"].is_null() ||
      result["output"].get_ref<const std::string&>().size() > max_bytes) {
    co_await take_excerpt(result, place, from, max_bytes, use.cancel);
  }
  saw(place, next);
  Outcome outcome{text_of_run(result), {}};
  outcome.data = std::move(result);
  co_return outcome;
}

Task<Outcome> Toolbox::wait(Use use) {
  const Place place = place_of(use.arguments);
  json any = json::array();
  for (const char* const name : {"match", "listening", "file", "quietMs"}) {
    if (const auto member = use.arguments.find(name); member != use.arguments.end()) {
      any.push_back({{name, *member}});
    }
  }
  any.push_back({{"input", true}});
  any.push_back({{"exit", true}});
  json params = chosen(use.arguments, {"session", "waitMs"});
  params["any"] = std::move(any);
  json met = co_await ask("session/wait", std::move(params), place.host, use.cancel);
  const std::optional<std::uint64_t> from =
      use.arguments.contains("from") ? std::optional(use.arguments["from"].get<std::uint64_t>()) : std::nullopt;
  const json state = met.contains("result") ? met["result"]["state"] : json();
  if (!state.is_null() && state != "matched" && state != "running") {
    json result = std::move(met["result"]);
    const auto begin = result["from"].get<std::uint64_t>();
    co_return co_await outcome_of_run(std::move(result), std::move(use), from.value_or(unseen_from(place, begin)));
  }
  json asked{{"session", place.session}};
  const json info = co_await ask("session/info", std::move(asked), place.host, use.cancel);
  const auto max_bytes = use.arguments["maxOutputBytes"].get<std::size_t>();
  const auto next = info["next"].get<std::uint64_t>();
  const auto oldest = info["oldest"].get<std::uint64_t>();
  const std::uint64_t begin = from.value_or(unseen_from(place, next - std::min<std::uint64_t>(next, max_bytes)));
  json data{{"session", place.session}, {"host", place.host},      {"state", info["state"]},
            {"job", info["job"]},       {"met", met["condition"]}, {"next", next}};
  co_await take_excerpt(data, place, std::clamp(begin, oldest, next), max_bytes, use.cancel);
  saw(place, next);
  std::string line = met["condition"].is_null() ? "not yet; waitMs is over" : "met: " + met["condition"].dump();
  if (!info["waiting"].is_null() && info["state"] == "waitingInput") {
    line = text_of_waiting(info["waiting"]);
  } else {
    line += info["job"].is_null() ? "; nothing runs" : "; the command goes on";
  }
  const std::string output = with_gap(data["output"], data["omitted"], place);
  co_return Outcome{with_line(output, "[" + line + "]"), std::move(data)};
}

Task<Outcome> Toolbox::write(Use use) {
  json written = co_await forward("session/write", std::move(use));
  std::string text = "[" + written["accepted"].dump() + " bytes typed; wait and screen show what came of it]";
  co_return Outcome{std::move(text), std::move(written)};
}

Task<Outcome> Toolbox::read_output(Use use) {
  const Place place = place_of(use.arguments);
  const auto max_bytes = use.arguments["maxBytes"].get<std::uint64_t>();
  if (!use.arguments.contains("offset")) {
    json asked{{"session", place.session}};
    const json info = co_await ask("session/info", std::move(asked), place.host, use.cancel);
    const auto next = info["next"].get<std::uint64_t>();
    use.arguments["offset"] = std::max(info["oldest"].get<std::uint64_t>(), next - std::min(next, max_bytes));
  }
  json params = chosen(use.arguments, {"session", "offset", "maxBytes"});
  params["view"] = "clean";
  json read = co_await ask("session/read", std::move(params), place.host, use.cancel);
  if (read["data"].get_ref<const std::string&>().size() > max_bytes) {
    read["data"] = co_await read_text(place, read["from"].get<std::uint64_t>(), read["next"].get<std::uint64_t>(),
                                      max_bytes, use.cancel);
  }
  std::string line = "[bytes " + read["from"].dump() + " to " + read["next"].dump() + " of " + read["oldest"].dump() +
                     " to " + read["end"].dump();
  line += read["next"] < read["end"] ? "; go on with offset " + read["next"].dump() + "]" : "]";
  std::string text = with_line(read["data"], line);
  co_return Outcome{std::move(text), std::move(read)};
}

Task<Outcome> Toolbox::interrupt(Use use) {
  const Place place = place_of(use.arguments);
  json params = chosen(use.arguments, {"session", "escalate"});
  json done = co_await ask("session/interrupt", std::move(params), place.host, use.cancel);
  if (!done.contains("result") || done["result"].is_null()) {
    const std::string text = done["step"].is_null()
                                 ? "[nothing was running]"
                                 : "[" + done["step"].get<std::string>() + " was sent, and it is still " +
                                       done["state"].get<std::string>() + "; escalate goes further]";
    co_return Outcome{text, std::move(done)};
  }
  json result = std::move(done["result"]);
  const auto begin = result["from"].get<std::uint64_t>();
  co_return co_await outcome_of_run(std::move(result), std::move(use), unseen_from(place, begin));
}

Task<Outcome> Toolbox::screen(Use use) { return shown_by(text_of_screen, "session/screen", std::move(use)); }

Task<Outcome> Toolbox::sessions(Use use) { return shown_by(text_of_sessions, "session/list", std::move(use)); }

Task<Outcome> Toolbox::close_session(Use use) {
  const Place place = place_of(use.arguments);
  json closed = co_await forward("session/close", std::move(use));
  seen_.erase({place.host, place.session});
  std::string text = "[closed, with all it started";
  for (const json& process : closed["survivors"]) {
    text += "; could not end " + process["pid"].dump();
  }
  co_return Outcome{text + "]", std::move(closed)};
}

}  // namespace rex::mcp
