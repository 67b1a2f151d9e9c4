#include "results/analysis/acceptance/rules.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "harness/base/text.h"
#include "harness/plan/catalog.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml_reader.h"

namespace dettax {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefault = "default";
constexpr NumberRange kShare{.low = 0, .high = 1, .low_open = true};
constexpr NumberRange kRatio{.low = 1};
constexpr NumberRange kPositive{.low = 0, .low_open = true};
constexpr IntegerRange kCount{.low = 0};

const std::vector<std::string>& scopes() {
  static const std::vector<std::string> kScopes = {"same_process",     "relaunch",
                                                   "other_allocation", "restart_replay",
                                                   "other_threads",    "other_ranks"};
  return kScopes;
}

std::string path_of(const std::string& name_or_path) {
  const std::vector<std::string> known = list_names(FileKind::rules);
  if (std::ranges::find(known, name_or_path) != known.end())
    return resolve(FileKind::rules, name_or_path);
  if (fs::is_regular_file(name_or_path)) return name_or_path;
  throw Error(ErrorKind::config,
              fmt::format("there are no rules \"{}\"{}; a file or a name is expected", name_or_path,
                          did_you_mean(name_or_path, known)));
}

void optional_number(MapReader& keys, const std::string& key, std::optional<double>& value,
                     NumberRange range) {
  const Yaml* node = keys.find(key);
  if (node == nullptr || node->kind == Yaml::Kind::null) return;
  value = read_number(*node, keys.path(key), range);
}

CaseLimit read_limit(const Yaml& node, const std::string& path) {
  MapReader keys(node, path);
  CaseLimit limit;
  keys.text("case", limit.pattern);
  keys.text("arm", limit.arm);
  optional_number(keys, "max_overhead_ratio", limit.max_overhead_ratio, kRatio);
  optional_number(keys, "min_tokens_per_second", limit.min_tokens_per_second, kPositive);
  optional_number(keys, "max_memory_peak_bytes", limit.max_memory_peak_bytes, kPositive);
  keys.finish();
  return limit;
}

template <class Read>
void section(MapReader& keys, const std::string& name, Read read) {
  MapReader inner(keys.require(name), keys.path(name));
  read(inner);
  inner.finish();
}

void read_limits(MapReader& keys, AcceptanceRules& rules) {
  const Yaml& node = keys.require("limits");
  if (node.kind != Yaml::Kind::list)
    throw config_error(node, keys.path("limits"),
                       "a list is expected, of maps with case and limits");
  for (size_t i = 0; i < node.items.size(); ++i)
    rules.limits.push_back(read_limit(node.items[i], fmt::format("limits.{}", i)));
}

void read_evidence(MapReader& keys, AcceptanceRules& rules) {
  const Yaml& node = keys.require("scopes");
  if (node.kind != Yaml::Kind::list)
    throw config_error(node, keys.path("scopes"), "a list is expected, such as [same_process]");
  for (const Yaml& item : node.items)
    rules.evidence_scopes.push_back(scopes()[read_word(item, keys.path("scopes"), scopes())]);
  keys.flag("fast_must_differ", rules.fast_must_differ);
}

void read_sections(MapReader& keys, AcceptanceRules& rules) {
  section(keys, "fleet", [&](MapReader& in) {
    in.number("false_accusation_ratio", rules.fleet.false_accusation_ratio, kShare);
    in.number("slow_ratio", rules.fleet.slow_ratio, kRatio);
    in.number("odd_ratio", rules.fleet.odd_ratio, kRatio);
    in.integer("min_nodes", rules.fleet.min_nodes, {.low = 4});
  });
  section(keys, "stragglers",
          [&](MapReader& in) { in.number("max_rank_ratio", rules.max_rank_ratio, kRatio); });
  section(keys, "memory", [&](MapReader& in) {
    in.number("max_estimate_ratio", rules.max_memory_estimate_ratio, kRatio);
    in.number("max_fleet_ratio", rules.max_memory_fleet_ratio, kRatio);
  });
  section(keys, "evidence", [&](MapReader& in) { read_evidence(in, rules); });
  section(keys, "attempts",
          [&](MapReader& in) { in.integer("max", rules.max_attempts, {.low = 1}); });
  section(keys, "baseline", [&](MapReader& in) {
    in.number("false_alarm_ratio", rules.baseline.false_alarm_ratio, kShare);
    in.number("least_change_ratio", rules.baseline.least_change_ratio, kPositive);
    in.number("most_tolerance_ratio", rules.baseline.most_tolerance_ratio, kPositive);
  });
  section(keys, "devices",
          [&](MapReader& in) { in.integer("per_node", rules.devices_per_node, kCount); });
  section(keys, "idle", [&](MapReader& in) {
    in.number("max_busy_ratio", rules.idle_busy_ratio, kShare);
    in.number("timeout_seconds", rules.idle_timeout_seconds, {.low = 0});
    in.number("interval_seconds", rules.idle_interval_seconds, kPositive);
  });
  section(keys, "bandwidth", [&](MapReader& in) {
    in.number("min_message_bytes", rules.bandwidth_min_message_bytes, {.low = 0});
    optional_number(in, "min_bus_bytes_per_second", rules.min_bus_bytes_per_second, kPositive);
  });
}

}  // namespace

AcceptanceRules load_acceptance_rules(const std::string& name_or_path,
                                      const std::vector<Override>& overrides) {
  Yaml root = read_yaml(resolve(FileKind::rules, kDefault));
  if (name_or_path != kDefault) root = merge_yaml(root, read_yaml(path_of(name_or_path)));
  for (const Override& one : overrides) lay_over(root, one);
  AcceptanceRules rules;
  rules.name = fs::path(name_or_path).stem().string();
  MapReader keys(root, "");
  std::string description;
  keys.text("description", description);
  read_limits(keys, rules);
  read_sections(keys, rules);
  keys.finish();
  return rules;
}

}  // namespace dettax
