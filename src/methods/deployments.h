// Deployments: machines that a command makes and takes away again, described by documents whose words are filled in
// here. Must not know any deployment's program, nor how a host is reached.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "methods/wire.gen.h"
#include "relay/dial.h"

namespace rex::methods {

using Deployments = std::map<std::string, wire::Deployment>;

/// The documents that are part of the program: name and JSON text.
std::span<const std::pair<std::string_view, std::string_view>> deployment_texts();

/// The one of this name, of `own` or else of ours. Throws InvalidParams with the names there are.
wire::Deployment find_deployment(const std::string& name, const Deployments& own);

/// Fills the options in. Throws InvalidParams for one that is needed and not there, one that the deployment has no use
/// for, and a value that its program would take for an option.
relay::Target deploy(const wire::Deployment& deployment, const wire::HostOptions& options);

/// Throws InvalidParams where there is an option that only a deployment takes.
void refuse_deployment_options(const wire::HostOptions& options);

}  // namespace rex::methods
