#include <nlohmann/json.hpp>

#include "results/analysis/acceptance/acceptance.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

// A number that does not exist is null beside a reason.
void optional(Json& json, const char* key, const std::optional<double>& value, const char* reason) {
  if (value) {
    json[key] = *value;
  } else {
    json[key] = nullptr;
    json[std::string(key) + "_reason"] = reason;
  }
}

Json finding_json(const AcceptanceFinding& finding) {
  Json json = {{"rule", finding.rule},        {"status", to_string(finding.status)},
               {"reason_code", finding.code}, {"exit_code", static_cast<int>(finding.exit_code)},
               {"node", finding.node},        {"case", finding.case_id},
               {"arm", finding.arm}};
  json["rank"] = finding.rank ? Json(*finding.rank) : Json(nullptr);
  if (!finding.rank) json["rank_reason"] = "it is about no rank alone";
  json["words"] = finding.words;
  return json;
}

Json node_json(const NodeVerdict& node) {
  Json json = {{"node", node.node},
               {"status", to_string(node.status)},
               {"reason_code", node.code},
               {"exit_code", static_cast<int>(node.exit_code)},
               {"hardware_suspected", node.hardware},
               {"cases", node.cases},
               {"attempts", node.attempts}};
  constexpr const char* kWhy = "not compared with a fleet";
  optional(json, "fast_step_over_fleet_ratio", node.fast_ratio, kWhy);
  optional(json, "deterministic_ratio_over_fleet_ratio", node.odd_ratio, kWhy);
  return json;
}

}  // namespace

std::string acceptance_json(const Acceptance& acceptance) {
  Json json;
  json["schema_version"] = kSchemaVersion;
  json["status"] = to_string(acceptance.status);
  json["exit_code"] = static_cast<int>(acceptance.exit_code);
  json["rules"] = acceptance.rules;
  json["rule_counts"] = Json::array();
  for (const RuleSummary& one : acceptance.summaries) {
    json["rule_counts"].push_back({{"rule", one.rule},
                                   {"judged", one.judged},
                                   {"kept", one.kept},
                                   {"why_not_judged", one.words}});
  }
  json["findings"] = Json::array();
  for (const AcceptanceFinding& one : acceptance.findings)
    json["findings"].push_back(finding_json(one));
  json["nodes"] = Json::array();
  for (const NodeVerdict& one : acceptance.nodes) json["nodes"].push_back(node_json(one));
  json["notes"] = acceptance.notes;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dettax
