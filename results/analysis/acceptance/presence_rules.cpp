// What nodes have, lack or hold beside each other, other than times.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/robust.h"
#include "results/analysis/acceptance/fleet_rules.h"

namespace dettax {
namespace {

// Of a record that broke, or in which nothing at all was measured, that is said already.
bool has_values(const NodeObservation& one) {
  const Status status = one.record->verdict.status;
  return one.one_node && status != Status::error && status != Status::skipped &&
         std::ranges::any_of(one.record->arms, [](const ArmResult& arm) {
           return arm.step_time_seconds.has_value();
         });
}

void judge_value(const NodeObservation& one, bool there, bool elsewhere, const std::string& what,
                 const std::string& arm, FindingList& list) {
  if (there || !elsewhere) return;
  list.add("cases", "no_measurement", one,
           fmt::format("{} on {}: {} is missing or unusable, though other nodes have it",
                       one.case_id, one.node, what))
      .arm = arm;
}

// What cannot be compared is not accepted by that.
void judge_values(const std::vector<NodeObservation>& all, FindingList& list) {
  std::map<std::string, std::set<std::string>> with_fast;                           // case -> nodes
  std::map<std::pair<std::string, std::string>, std::set<std::string>> with_ratio;  // case, arm
  for (const NodeObservation& one : all) {
    if (!has_values(one)) continue;
    if (one.fast_seconds) with_fast[one.case_id].insert(one.node);
    for (const auto& [arm, ratio] : one.overhead) with_ratio[{one.case_id, arm}].insert(one.node);
  }
  const auto elsewhere = [](const std::set<std::string>& nodes, const std::string& node) {
    return nodes.size() > (nodes.contains(node) ? 1U : 0U);
  };
  for (const NodeObservation& one : all) {
    if (!has_values(one)) continue;
    judge_value(one, one.fast_seconds.has_value(), elsewhere(with_fast[one.case_id], one.node),
                "the fast step", "fast", list);
    if (one.record->verdict.status != Status::pass) continue;  // it says why there is no tax
    for (const auto& [key, nodes] : with_ratio) {
      if (key.first != one.case_id) continue;
      judge_value(one, one.overhead.contains(key.second), elsewhere(nodes, one.node),
                  "the ratio of " + key.second, key.second, list);
    }
  }
}

}  // namespace

void judge_memory_of_fleet(const std::vector<NodeObservation>& all, const FleetSetup& setup,
                           const AcceptanceRules& rules, FindingList& list) {
  using Arm = std::tuple<std::string, std::string, std::string>;
  std::map<Arm, std::vector<std::pair<const NodeObservation*, double>>> groups;
  for (const NodeObservation& one : all) {
    if (setup.excluded.contains(one.node)) continue;
    for (const ArmResult& arm : one.record->arms) {
      if (arm.memory_peak_bytes > 0)
        groups[{one.case_id, arm.arm, setup.group_of(one.node)}].emplace_back(
            &one, static_cast<double>(arm.memory_peak_bytes));
    }
  }
  for (const auto& [key, members] : groups) {
    const auto& [case_id, arm_name, group] = key;
    if (members.size() < static_cast<size_t>(rules.fleet.min_nodes)) continue;
    std::vector<double> peaks;
    for (const auto& [one, peak] : members) peaks.push_back(peak);
    const double usual = median(peaks);
    for (const auto& [one, peak] : members) {
      if (peak <= rules.max_memory_fleet_ratio * usual) {
        list.keep("memory");
        continue;
      }
      list.add("memory", "over_memory", *one,
               fmt::format(
                   "{} on {}: {} took {}, {:.2f} times the fleet's median of {}, limit {:.2f}",
                   case_id, one->node, arm_name, format_bytes(peak), peak / usual,
                   format_bytes(usual), rules.max_memory_fleet_ratio))
          .arm = arm_name;
    }
  }
}

void judge_presence(const std::vector<NodeObservation>& all, FindingList& list) {
  std::map<std::string, std::set<std::string>> ran;  // case -> nodes
  std::map<std::string, const NodeObservation*> nodes;
  for (const NodeObservation& one : all) {
    nodes.emplace(one.node, &one);
    if (one.one_node && one.record->verdict.status != Status::skipped)
      ran[one.case_id].insert(one.node);
  }
  std::set<std::pair<std::string, std::string>> refused;
  for (const NodeObservation& one : all) {
    const auto others = ran.find(one.case_id);
    if (one.record->verdict.status != Status::skipped || others == ran.end() ||
        others->second.contains(one.node))
      continue;
    if (!refused.emplace(one.node, one.case_id).second) continue;
    list.add("cases", "configuration_differs", one,
             fmt::format("{} cannot run on {}, but ran on {}: {}", one.case_id, one.node,
                         format_things(static_cast<int64_t>(others->second.size()), "other node"),
                         one.record->verdict.reason));
  }
  for (const auto& [case_id, have] : ran) {
    for (const auto& [node, one] : nodes) {
      if (have.contains(node) || refused.contains({node, case_id})) continue;
      list.add("cases", "incomplete", *one, fmt::format("{} has no result on {}", case_id, node))
          .case_id = case_id;
    }
  }
  judge_values(all, list);
}

}  // namespace dettax
