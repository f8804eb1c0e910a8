#include "methods/session_records.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/machine.h"
#include "base/own_file.h"
#include "files/tree.h"
#include "transports/unix.h"

namespace rex::methods {

using nlohmann::json;

namespace {

constexpr std::size_t digits_of_place = 16;
constexpr std::size_t max_record_bytes = std::size_t{16} << 20;

/// By which a record that is not as it was written is known.
std::string digest_of(const json& boot, const json& info) { return sha256_of(boot.dump() + info.dump()); }

/// Throws what is wrong with it: Error, json::exception.
wire::SessionInfo read_record(const std::string& path) {
  const json record = json::parse(read_own_file(path, "the record of a session", Trust::secret, max_record_bytes));
  const json& boot = record.at("boot");
  if (const json digest = digest_of(boot, record.at("info")); record.value("digest", digest) != digest) {
    throw Error(Fault::NotPermitted, "it is not as it was written");
  }
  auto info = wire::read_result<wire::SessionInfo>(record.at("info"));
  info.state = wire::SessionState::lost;
  info.lostBy = boot == boot_id() ? wire::LostBy::killed : wire::LostBy::reboot;
  info.foreground.reset();
  info.job.reset();
  info.waiting.reset();
  info.writer.reset();
  return info;
}

}  // namespace

std::string default_record_directory() {
  const std::string state = own_directory("XDG_STATE_HOME", ".local/state");
  return state.empty() ? "" : state + "/rex-rpc/sessions";
}

SessionRecords::SessionRecords(std::string directory, const std::string& place) : directory_(std::move(directory)) {
  prefix_ = sha256_of(machine_id() + "\n" + place).substr(0, digits_of_place) + "-";
}

/// Under a name of its own first: whoever reads finds all of it or nothing.
void SessionRecords::keep(const std::string& socket, const wire::SessionInfo& info) const {
  if (directory_.empty()) {
    throw Error(Fault::NotPermitted, "the record of a session would be kept in the home of its user, who has none");
  }
  files::make_parents(directory_);
  const transports::PrivateDirectory directory(directory_);
  if (const std::size_t kept = sockets().size(); kept >= max_session_records) {
    throw limit_exceeded("sessionRecords", static_cast<std::int64_t>(kept) + 1, max_session_records);
  }
  const std::string half = directory_ + "/." + prefix_ + socket;
  const Fd file(::open(half.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) {
    throw os_error("cannot keep the record of a session in", errno, half);
  }
  try {
    json record{{"boot", boot_id()}, {"info", wire::write(info)}};
    record["digest"] = digest_of(record["boot"], record["info"]);
    write_all(file.get(), record.dump(), "the record of a session");
    if (::fsync(file.get()) != 0 || ::rename(half.c_str(), path_of(socket).c_str()) != 0 ||
        ::fsync(directory.fd()) != 0) {
      throw os_error("cannot keep the record of a session in", errno, half);
    }
  } catch (...) {
    ::unlink(half.c_str());
    throw;
  }
}

bool SessionRecords::remove(const std::string& socket) const {
  return !directory_.empty() && ::unlink(path_of(socket).c_str()) == 0;
}

bool SessionRecords::contains(const std::string& socket) const {
  return !directory_.empty() && ::access(path_of(socket).c_str(), F_OK) == 0;
}

std::optional<wire::SessionInfo> SessionRecords::find(const std::string& socket) const {
  try {
    return contains(socket) ? std::optional(read_record(path_of(socket))) : std::nullopt;
  } catch (const std::exception&) {  // a list tells of it
    return std::nullopt;
  }
}

SessionRecords::Lost SessionRecords::lost(const std::function<bool(const std::string& socket)>& is_there) const {
  Lost all;
  std::size_t damaged = 0;
  for (const std::string& socket : sockets()) {
    try {
      if (!is_there(socket)) {
        all.sessions.push_back(read_record(path_of(socket)));
      }
    } catch (const std::exception& error) {
      if (contains(socket) && ++damaged == 1) {  // else it was removed meanwhile
        all.problem = "a session was lost, and its record " + printable(path_of(socket)) + " is damaged (" +
                      printable(error.what()) + "): remove it";
      }
    }
  }
  if (damaged > 1) {
    all.problem += "; and " + std::to_string(damaged - 1) + " more like it";
  }
  return all;
}

std::vector<std::string> SessionRecords::sockets() const {
  std::vector<std::string> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(directory_.empty() ? nullptr : ::opendir(directory_.c_str()),
                                                    ::closedir);
  while (const dirent* const entry = listing ? ::readdir(listing.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix_)) {
      all.emplace_back(name.substr(prefix_.size()));
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace rex::methods
