// Every example of schema/examples, through the generated readers and writers. The examples are data: add a case there.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "methods/wire.gen.h"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace rex;

namespace {

/// What a method's types make of a value: read, then written again.
struct Rewrite {
  std::function<json(const json&)> params;
  std::function<json(const json&)> result;
};

std::map<std::string, Rewrite, std::less<>> rewrites() {
  std::map<std::string, Rewrite, std::less<>> table;
  wire::for_each_method([&table](auto tag) {
    using Method = decltype(tag);
    Rewrite& row = table[std::string(Method::name)];
    row.params = [](const json& value) { return wire::write(wire::read<typename Method::Params>(value)); };
    if constexpr (requires { typename Method::Result; }) {
      row.result = [](const json& value) { return wire::write(wire::read_result<typename Method::Result>(value)); };
    }
  });
  return table;
}

json examples_of(std::string method) {
  std::ranges::replace(method, '/', '-');
  std::ifstream file(std::filesystem::path(REX_SCHEMA_DIR) / "examples" / (method + ".json"));
  REQUIRE(file);
  return json::parse(file);
}

json defaults_of(const std::string& method) {
  const json document = json::parse(wire::openrpc_document());
  json out = json::object();
  for (const json& row : document["methods"]) {
    for (const json& param : row["params"]) {
      const std::string ref = param.value("$ref", "");
      const json& described = ref.empty() ? param : document.at(json::json_pointer(ref.substr(1)));
      if (row["name"] == method && described["schema"].contains("default")) {
        out[described["name"].get<std::string>()] = described["schema"]["default"];
      }
    }
  }
  return out;
}

/// Whether all of `part` is in `whole`; a null that was given may be gone.
bool holds(const json& whole, const json& part) {
  if (part.is_object() && whole.is_object()) {
    return std::ranges::all_of(part.items(), [&whole](const auto& member) {
      return holds(whole.value(member.key(), json()), member.value());
    });
  }
  if (part.is_array() && whole.is_array()) {
    return whole.size() == part.size() && std::ranges::equal(whole, part, holds);
  }
  return part.is_null() || whole == part;
}

}  // namespace

TEST_CASE("Every good example is accepted and comes back with nothing added but defaults") {
  for (const auto& [method, rewrite] : rewrites()) {
    const json defaults = defaults_of(method);
    const json examples = examples_of(method)["good"];
    REQUIRE_FALSE(examples.empty());
    for (const json& example : examples) {
      CAPTURE(method, example.dump());
      const json written = rewrite.params(example["params"]);
      CHECK(holds(written, example["params"]));
      CHECK(rewrite.params(written) == written);
      for (const auto& [name, value] : written.items()) {
        if (!example["params"].is_object() || example["params"].value(name, json()).is_null()) {
          CAPTURE(name);
          CHECK(value == defaults.value(name, json()));
        }
      }
      if (example.contains("result")) {
        CHECK(rewrite.result(example["result"]) == example["result"]);
      }
    }
  }
}

TEST_CASE("Every bad example is refused by name and path", "[R17]") {
  for (const auto& [method, rewrite] : rewrites()) {
    const json examples = examples_of(method)["bad"];
    REQUIRE_FALSE(examples.empty());
    for (const json& example : examples) {
      CAPTURE(method, example.dump());
      const std::string member = example["error"]["member"];
      try {
        rewrite.params(example["params"]);
        FAIL_CHECK("was accepted");
      } catch (const Error& error) {
        CHECK(error.fault() == Fault::InvalidParams);
        CHECK(error.was_executed() == Executed::no);
        CHECK_THAT(error.message(), ContainsSubstring(example["error"]["contains"].get<std::string>()));
        CHECK(error.message().starts_with("params" + std::string(member.empty() ? "" : ".") + member + ": "));
        REQUIRE_FALSE(error.facts().empty());
        CHECK(error.facts()[0].first == "member");
        CHECK(std::get<std::string>(error.facts()[0].second) == member);
      }
    }
  }
}
