// `rex-rpc sessions`, `logs` and `kill`: what a person does with sessions that others have started.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/encoding.h"
#include "base/error.h"
#include "base/time.h"
#include "cli/commands.h"
#include "cli/instances.h"
#include "cli/table.h"
#include "cli/visible.h"
#include "methods/keepers.h"

namespace rex::cli {
namespace {

using nlohmann::json;

// How long one read of `logs --follow` waits for more.
constexpr std::int64_t follow_wait_ms = 60'000;

std::string words_of(const json& info) {
  std::string words;
  const json none = json::array();
  for (const json& word : info.value("argv", none)) {
    words += (words.empty() ? "" : " ") + printable(word.get<std::string>(), 80);
  }
  return words;
}

/// "7s", "5m", "3h", "2d".
std::string age_of(const json& info) {
  const std::optional<timespec> created = parse_time(info.value("createdAt", ""));
  const std::int64_t seconds = created ? std::max<std::int64_t>(0, now_utc().tv_sec - created->tv_sec) : 0;
  constexpr std::pair<std::int64_t, char> units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}};
  for (const auto& [length, unit] : units) {
    if (seconds >= length) {
      return std::to_string(seconds / length) + unit;
    }
  }
  return std::to_string(seconds) + "s";
}

Row row_of(const Instance& instance, const json& info) {
  const json& foreground = info.value("foreground", json());
  const std::string command = foreground.is_object() ? printable(foreground.value("command", ""), 80) : words_of(info);
  const auto text = [&info](const char* member) {
    return info.value(member, json()).is_string() ? printable(info[member].get<std::string>(), 64) : std::string("-");
  };
  return {instance.name + "/" + text("session"), text("state"), text("job"), text("writer"), age_of(info), command};
}

Task<int> list(ClientSide& side, Where where, bool as_json) {
  const std::vector<Instance> all = co_await look_around(side, std::move(where));
  json document = json::array();
  std::vector<Row> rows{{"SESSION", "STATE", "JOB", "WRITER", "AGE", "COMMAND"}};
  int code = 0;
  for (const Instance& instance : all) {
    for (const json& info : instance.sessions) {
      json one = info;
      one["instance"] = instance.name;
      document.push_back(std::move(one));
      rows.push_back(row_of(instance, info));
    }
    if (!instance.problem.empty()) {
      std::fprintf(stderr, "rex-rpc: %s: %s\n", instance.name.c_str(), printable(instance.problem).c_str());
      code = 1;
    }
  }
  if (as_json) {
    std::puts(document.dump(2).c_str());
  } else if (rows.size() > 1) {
    print_table(rows);
  } else if (isatty(STDOUT_FILENO) != 0) {
    std::fprintf(stderr, "No sessions. `rex-rpc shell` starts one of your own.\n");
  }
  co_return code;
}

/// Where output goes: as it is, but to a terminal only what does not act on it.
struct Printer {
  explicit Printer(int descriptor) : fd(descriptor), is_terminal(isatty(descriptor) != 0) {}

  void print(const std::string& bytes) { write_all(fd, is_terminal ? text.feed(bytes) : bytes, "cannot print output"); }
  void finish() { write_all(fd, text.finish(), "cannot print output"); }

  int fd;
  bool is_terminal;
  VisibleText text;
};

Task<> print_stream(Found found, std::string stream, int to, LogsOptions options) {
  Printer printer(to);
  json params{{"session", found.session()}, {"stream", stream}, {"encoding", "base64"}};
  params["waitMs"] = options.follow ? follow_wait_ms : 0;
  if (options.from) {
    params["offset"] = *options.from;
  }
  bool more = true;
  while (more) {
    json oldest;
    json read;
    try {
      read = co_await found.client->call("session/read", params);
    } catch (const Error& error) {
      if (error.fault() == Fault::OffsetGone) {
        oldest = fact_of(error, "oldest");
      }
      if (!oldest.is_number_integer()) {
        throw;
      }
    }
    if (!oldest.is_null()) {
      const std::int64_t lost = oldest.get<std::int64_t>() - params["offset"].get<std::int64_t>();
      std::fprintf(stderr, "rex-rpc: %lld bytes are no longer kept\n", static_cast<long long>(lost));
      params["offset"] = oldest;
      continue;
    }
    printer.print(from_base64(read.at("data").get<std::string>()).value_or(""));
    params["offset"] = read.at("next");
    more = !read.at("eof").get<bool>() && (options.follow || read.at("next") < read.at("end"));
  }
  printer.finish();
}

Task<int> print_logs(ClientSide& side, Where where, LogsOptions options) {
  const Found found = co_await find_session(side, std::move(where), options.session);
  struct Open {
    int streams = 0;
    std::exception_ptr failure;
    Event changed;
  };
  const auto open = std::make_shared<Open>();
  const auto printed = [open](std::exception_ptr failure) {
    --open->streams;
    open->failure = failure ? failure : open->failure;
    open->changed.notify();
  };
  open->streams = found.info.at("tty").get<bool>() ? 1 : 2;
  const bool two = open->streams == 2;
  spawn(side.executor(), print_stream(found, "stdout", STDOUT_FILENO, options), printed);
  if (two) {  // offsets are those of stdout
    LogsOptions all = options;
    all.from.reset();
    spawn(side.executor(), print_stream(found, "stderr", STDERR_FILENO, all), printed);
  }
  Waiter waiter(side.executor());
  waiter.subscribe(open->changed);
  while (open->streams != 0 && !open->failure) {
    co_await waiter.until(never);
  }
  if (open->failure) {
    std::rethrow_exception(open->failure);
  }
  co_return 0;
}

Task<int> close_sessions(ClientSide& side, Where where, std::vector<std::string> names) {
  std::vector<Found> all;  // first find all of them: nothing is ended when one is not meant
  for (const std::string& name : names) {
    all.push_back(co_await find_session(side, where, name, true));
  }
  int code = 0;
  for (const Found& found : all) {
    if (!found.client) {
      methods::records_of_lasting().remove(methods::keeper_socket(found.session()));
      continue;
    }
    json params{{"session", found.session()}};
    const json closed = co_await found.client->call("session/close", std::move(params));
    for (const json& survivor : closed.at("survivors")) {
      std::fprintf(stderr, "rex-rpc: %s: process %lld (%s) could not be ended\n", found.full_name().c_str(),
                   survivor.at("pid").get<long long>(), printable(survivor.at("command").get<std::string>()).c_str());
      code = 1;
    }
  }
  co_return code;
}

}  // namespace

int sessions(const Where& where, bool as_json) {
  return without_instance([&](ClientSide& side) { return list(side, where, as_json); });
}

int logs(const Where& where, LogsOptions options) {
  return without_instance([&](ClientSide& side) { return print_logs(side, where, options); });
}

int kill(const Where& where, std::vector<std::string> names) {
  return without_instance([&](ClientSide& side) { return close_sessions(side, where, names); });
}

}  // namespace rex::cli
