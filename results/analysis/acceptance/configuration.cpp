#include "results/analysis/acceptance/configuration.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "results/analysis/acceptance/baseline.h"
#include "results/provenance.h"

namespace dettax {
namespace {

using Settings = std::map<std::string, std::set<std::string>>;  // setting -> values on one node

void collect(const Record& record, Settings& settings) {
  for (const auto& [name, value] : provenance(record.environment)) settings[name].insert(value);
  settings["tool_version"].insert(record.environment.tool_version);
  settings["git_commit"].insert(record.environment.git_commit);
  settings["content of case " + record.case_id].insert(case_hash(record));
  for (const ArmResult& arm : record.arms) {
    settings["mode " + arm.mode].insert(arm.mode_hash);
    for (const auto& [name, value] : arm.engaged) {
      if (!value.empty())
        settings[fmt::format("{} engaged by {} in {}", name, arm.arm, record.case_id)].insert(
            value);
    }
    // What a mode replaced was set there, whatever the mode made of it.
    for (const auto& [name, value] : arm.environment_before)
      settings[name + " before the mode"].insert(value);
  }
}

// Whether a node without this setting lacks it, or merely did not run what has it.
bool comparable(const std::string& setting) {
  return setting.find(" engaged by ") == std::string::npos && !setting.starts_with("mode ") &&
         !setting.starts_with("content of case ");
}

std::string words(const std::set<std::string>& values) {
  return join(std::vector<std::string>(values.begin(), values.end()), " and ");
}

std::string all_values(const std::map<std::string, std::string>& value_of) {
  constexpr size_t kShown = 8;
  std::vector<std::string> parts;
  for (const auto& [node, value] : value_of) parts.push_back(fmt::format("{} on {}", value, node));
  const size_t all = parts.size();
  if (all > kShown) parts.resize(kShown);
  return join(parts, ", ") + (all > kShown ? fmt::format(" and {} more nodes", all - kShown) : "");
}

// Nodes that are in the minority with one setting, or the setting itself where nothing has a majority.
void add_differences(const std::string& setting, const std::map<std::string, std::string>& value_of,
                     std::vector<ConfigurationDifference>& found) {
  std::map<std::string, size_t> votes;
  for (const auto& [node, value] : value_of) ++votes[value];
  if (votes.size() < 2) return;
  const auto most = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; });
  if (2 * most->second <= value_of.size()) {
    found.push_back({"", setting, all_values(value_of), "", value_of});
    return;
  }
  for (const auto& [node, value] : value_of) {
    if (value != most->first) found.push_back({node, setting, value, most->first, {}});
  }
}

}  // namespace

std::vector<ConfigurationDifference> configuration_differences(
    const std::vector<NodeObservation>& observations) {
  std::map<std::string, Settings> by_node;
  std::set<std::string> names;
  for (const NodeObservation& one : observations) {
    if (one.record->arms.empty()) continue;
    Settings& settings = by_node[one.node];
    collect(*one.record, settings);
    for (const auto& [name, values] : settings) names.insert(name);
  }
  std::vector<ConfigurationDifference> found;
  for (const std::string& name : names) {
    std::map<std::string, std::string> value_of;  // node -> value
    for (const auto& [node, settings] : by_node) {
      const auto own = settings.find(name);
      if (own == settings.end() && !comparable(name)) continue;
      value_of[node] = own == settings.end() ? kUnset : words(own->second);
    }
    add_differences(name, value_of, found);
  }
  return found;
}

}  // namespace dettax
