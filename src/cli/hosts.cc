// `rex-rpc hosts` and `rex-rpc doctor --host`: which hosts there are, and what comes of reaching one.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/site.h"
#include "cli/table.h"
#include "methods/hosts_file.h"
#include "methods/version.h"

namespace rex::cli {
namespace {

using nlohmann::json;

constexpr std::size_t max_words_shown = 200;
constexpr std::int64_t doctor_patience_ms = 10'000;

std::string text(const json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>(), 1024) : "";
}

/// The URL or the words of the argv.
std::string how(const json& info) {
  std::string words = text(info, "url");
  const json none = json::array();
  for (const json& word : info.value("argv", none)) {
    words += (words.empty() ? "" : " ") + printable(word.get<std::string>(), max_words_shown);
  }
  return words.empty() ? "(bytes)" : words;
}

Task<int> list_hosts(Client client, bool as_json) {
  json params = json::object();
  const json result = co_await client->call("host/list", std::move(params));
  const json& hosts = result.at("hosts");
  std::vector<Row> rows{{"HOST", "STATE", "HOW"}};
  for (const json& info : hosts) {
    rows.push_back({text(info, "name"), text(info, "state"), how(info)});
  }
  const std::string problem = text(result, "detail");
  if (as_json) {
    std::puts(hosts.dump(2).c_str());
  } else if (rows.size() > 1) {
    print_table(rows);
  } else if (problem.empty() && isatty(STDOUT_FILENO) != 0) {
    std::fprintf(stderr, "No hosts. %s is where they are written: {\"hosts\": {\"gpu\": {\"url\": \"ssh://gpu\"}}}\n",
                 printable(methods::default_hosts_file()).c_str());
  }
  if (!problem.empty()) {
    std::fprintf(stderr, "rex-rpc: %s\n", problem.c_str());
  }
  co_return problem.empty() ? 0 : 2;
}

/// What a dial tells of itself, and when.
void tell_phases(ClientSide& side) {
  side.hear([begin = Clock::now()](const std::string& method, const json& params) {
    if (method == "host/status" && params.contains("phase")) {
      std::printf("%6lld ms  %s: %s %s\n", static_cast<long long>(milliseconds_since(begin)),
                  text(params, "host").c_str(), text(params, "phase").c_str(), text(params, "detail").c_str());
      std::fflush(stdout);
    }
  });
}

void tell_host(const std::string& name, const json& info) {
  const json& machine = info.at("machine");
  std::printf("ok   host %s: by %s\n", printable(name).c_str(), text(info, "took").c_str());
  std::printf("     machine: %s, %s %s %s, user %s, shell %s\n", text(machine, "hostname").c_str(),
              text(machine, "os").c_str(), text(machine, "kernel").c_str(), text(machine, "arch").c_str(),
              text(machine, "user").c_str(), text(machine, "shell").c_str());
  std::printf("     rex-rpc %s (this is %s)", text(info, "version").c_str(), std::string(methods::version).c_str());
  if (info.value("rttMs", json()).is_number()) {
    std::printf(", answers in %lld ms", info["rttMs"].get<long long>());
  }
  std::puts("");
  if (const std::string noise = text(info, "noise"); !noise.empty()) {
    std::printf("     printed before it spoke: %s\n", noise.c_str());
  }
}

/// What the rex-rpc there says of its machine: the very program that serves us is asked, wherever it lies. Whether it
/// lacks nothing.
Task<bool> tell_lacks(Site site, std::string instance) {
  const std::string pid = instance.substr(0, instance.find('-'));
  json params{{"command", {"/proc/" + pid + "/exe", "doctor"}}, {"timeoutMs", doctor_patience_ms}};
  json done;
  try {
    done = co_await site.call("process/run", std::move(params));
  } catch (const Error& error) {
    std::printf("     what it lacks could not be asked: %s\n", printable(error.message()).c_str());
    co_return false;
  }
  const std::string out = done.value("stdout", "");
  std::size_t begin = out.find('\n') + 1;  // its version and machine have been told
  for (std::size_t end = 0; begin < out.size() && (end = out.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::printf("     %s\n", printable(out.substr(begin, end - begin), 1024).c_str());
  }
  co_return done.value("exitCode", json()) == 0;
}

void tell_failure(const std::string& name, const Error& error) {
  std::string where;
  for (const char* const member : {"phase", "hop"}) {
    const json value = fact_of(error, member);
    where += value.is_string() && value != name ? std::string(", ") + member + " " + printable(value.get<std::string>())
                                                : "";
  }
  std::printf("FAIL host %s: %s%s\n     %s\n", printable(name).c_str(), std::string(name_of(error.fault())).c_str(),
              where.c_str(), printable(error.message(), 4096).c_str());
  if (fact_of(error, "phase") == "install") {
    std::puts("     (by the doctor; a request would put one there, unless the file says `install: false`)");
  }
}

/// One host, as `known` says or as the file there does, reached and told of. Where a rex-rpc could be put onto it, it
/// is dialled anew, with that forbidden. Whether it lacks nothing.
Task<bool> examine(Site before, Site site, std::string name, json known) {
  const bool is_of_file = known.is_null();
  if (is_of_file) {
    json which{{"name", name}};
    known = co_await before.call("host/info", std::move(which));
  }
  std::printf("host %s: %s\n", printable(site.host).c_str(), how(known).c_str());
  json info;
  if (const std::string url = text(known, "url"); is_of_file && (url.starts_with("tcp:") || url.starts_with("unix:"))) {
    json nothing = json::object();
    co_await site.call("ping", std::move(nothing));
    json which{{"name", name}};
    info = co_await before.call("host/info", std::move(which));
  } else {
    json params{{"name", name}, {"install", false}};
    for (const char* const member : {"url", "argv", "argvBytes"}) {
      if (const json value = known.value(member, json());
          !value.empty() && value != "") {  // NOLINT: a string is never empty()
        params[member] = value;
      }
    }
    info = co_await before.call("host/connect", std::move(params));
  }
  tell_host(site.host, info);
  co_return co_await tell_lacks(site, text(info.at("machine"), "instance"));
}

Task<int> examine_path(ClientSide& side, Client client, std::string host) {
  tell_phases(side);
  json known;
  if (is_host_url(host)) {
    known = json{{"url", host}};
    host = name_for(host);
  }
  Site site{client, ""};
  std::optional<Error> failure;
  bool lacks_nothing = true;
  while (!host.empty() && !failure) {
    const Site before = site;
    const std::string name = host.substr(0, host.find('/'));
    host.erase(0, std::min(host.size(), name.size() + 1));
    site.host += (site.host.empty() ? "" : "/") + name;
    try {
      lacks_nothing = co_await examine(before, site, name, std::exchange(known, nullptr)) && lacks_nothing;
    } catch (const Error& error) {
      failure = explained(error, name);
    }
    if (failure && failure->fault() == Fault::HostNotFound && before.host.empty()) {
      throw *failure;
    }
  }
  if (failure) {
    tell_failure(site.host, *failure);
  }
  co_return failure || !lacks_nothing ? 1 : 0;
}

}  // namespace

int hosts(const Where& where, bool as_json) {
  return with_client(where, [&](ClientSide&, Client client) { return list_hosts(client, as_json); });
}

int doctor_of_host(const Where& where) {
  return with_client(where, [&](ClientSide& side, Client client) { return examine_path(side, client, where.host); });
}

}  // namespace rex::cli
