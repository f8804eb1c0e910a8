// Where a command's requests are carried out: on the instance itself, or on a host that it reaches.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/client.h"

namespace rex::cli {

struct Site {
  Client client;
  std::string host;  // a path of names; empty: the instance itself

  Task<nlohmann::json> call(std::string method, nlohmann::json params) const;
};

/// Whether `--host` was given what `host/connect` takes, not a name.
bool is_host_url(const std::string& host);

/// A name that such a host can be called by.
std::string name_for(const std::string& url);

/// An error that says no more than that there is no host of this name, the first of a path, with where names come from.
Error explained(const Error& error, const std::string& name);

/// The host of a command's `--host`, reached: names of the user's file, or a URL. Throws what a dial throws.
Task<Site> reach(Client client, std::string host);

}  // namespace rex::cli
