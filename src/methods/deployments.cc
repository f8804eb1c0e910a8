#include "methods/deployments.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace rex::methods {
namespace {

/// The options that are given, each with its values: one, but for mounts and args.
using Values = std::map<std::string, std::vector<std::string>, std::less<>>;

constexpr std::string_view may_begin_with_a_dash = "args";
constexpr std::string_view option_names[] = {"image", "pull", "platform", "network", "mounts", "args", "keep"};

Values values_of(const wire::HostOptions& options) {
  Values values;
  const auto one = [&values](const char* name, const std::optional<std::string>& value) {
    if (value) {
      values[name] = {*value};
    }
  };
  one("image", options.image);
  one("platform", options.platform);
  one("network", options.network);
  if (options.pull) {
    values["pull"] = {std::string(wire::name_of(*options.pull))};
  }
  if (options.mounts && !options.mounts->empty()) {
    values["mounts"] = *options.mounts;
  }
  if (options.args && !options.args->empty()) {
    values["args"] = *options.args;
  }
  if (options.keep) {
    values["keep"] = {"true"};
  }
  return values;
}

class Filling {
 public:
  explicit Filling(const Values& values) : values_(values) {}

  std::vector<std::string> fill(const std::vector<wire::DeploymentWords>& parts) {
    std::vector<std::string> argv;
    for (const wire::DeploymentWords& part : parts) {
      if ((part.if_ && !holds(*part.if_)) || (part.unless && holds(*part.unless))) {
        continue;
      }
      if (!part.each) {
        add(argv, part.words, values_);
        continue;
      }
      use(*part.each);
      const auto many = values_.find(*part.each);
      for (std::size_t i = 0; many != values_.end() && i < many->second.size(); ++i) {
        Values one = values_;
        one[*part.each] = {many->second[i]};
        add(argv, part.words, one);
      }
    }
    return argv;
  }

  [[nodiscard]] bool uses(const std::string& name) const { return used_.contains(name); }

 private:
  void use(const std::string& name) {
    if (std::ranges::find(option_names, name) == std::end(option_names)) {
      throw invalid_params("deployment", "it asks for an option that there is not: " + printable(name));
    }
    used_.insert(name);
  }

  /// `name` or `name=value`.
  bool holds(const std::string& condition) {
    const std::size_t equals = std::min(condition.find('='), condition.size());
    const std::string name = condition.substr(0, equals);
    use(name);
    const auto found = values_.find(name);
    return found != values_.end() &&
           (equals == condition.size() || found->second == std::vector{condition.substr(equals + 1)});
  }

  void add(std::vector<std::string>& argv, const std::vector<std::string>& words, const Values& values) {
    for (const std::string& word : words) {
      argv.push_back(fill_word(word, values));
    }
  }

  /// `{name}` of an option is its value; any other brace is a brace.
  std::string fill_word(std::string_view word, const Values& values) {
    std::string filled;
    while (true) {
      const std::size_t open = word.find('{');
      const std::size_t close = open == word.npos ? open : word.find('}', open);
      if (close == word.npos) {
        break;
      }
      filled += word.substr(0, open);
      const std::string name(word.substr(open + 1, close - open - 1));
      if (std::ranges::find(option_names, name) == std::end(option_names)) {
        filled += '{';
        word.remove_prefix(open + 1);
        continue;
      }
      used_.insert(name);
      const auto found = values.find(name);
      if (found == values.end() || found->second.size() != 1) {
        throw invalid_params("options." + name, "this deployment needs it");
      }
      filled += found->second.front();
      word.remove_prefix(close + 1);
    }
    filled += word;
    return filled;
  }

  const Values& values_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace

wire::Deployment find_deployment(const std::string& name, const Deployments& own) {
  if (const auto found = own.find(name); found != own.end()) {
    return found->second;
  }
  std::string there;
  for (const auto& [known, deployment] : own) {
    there += known + ", ";
  }
  for (const auto& [known, text] : deployment_texts()) {
    if (known == name) {
      return wire::read_document<wire::Deployment>(nlohmann::json::parse(text));
    }
    there += std::string(known) + ", ";
  }
  throw invalid_params("deployment", "no deployment " + printable(name) + "; there are " +
                                         there.substr(0, there.size() - std::min<std::size_t>(there.size(), 2)));
}

relay::Target deploy(const wire::Deployment& deployment, const wire::HostOptions& options) {
  const Values values = values_of(options);
  for (const auto& [name, each] : values) {
    for (const std::string& value : each) {
      if (value.find('\0') != std::string::npos || (value.starts_with('-') && name != may_begin_with_a_dash)) {
        throw invalid_params("options." + name, "cannot be " + printable(value));
      }
    }
  }
  Filling filling(values);
  relay::Target target;
  target.prepare = filling.fill(deployment.prepare.value_or(std::vector<wire::DeploymentWords>{}));
  target.argv = filling.fill(deployment.connect);
  target.is_made = true;
  for (const auto& [name, each] : values) {
    if (!filling.uses(name)) {
      throw invalid_params("options." + name, "this deployment has no use for it");
    }
  }
  return target;
}

void refuse_deployment_options(const wire::HostOptions& options) {
  const Values values = values_of(options);
  if (!values.empty()) {
    throw invalid_params("options." + values.begin()->first, "only a deployment takes it");
  }
}

}  // namespace rex::methods
