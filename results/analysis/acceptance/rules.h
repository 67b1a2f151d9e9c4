#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/override.h"
#include "results/analysis/acceptance/baseline.h"

namespace dettax {

// Limits of the cases whose id matches a glob; absent means not judged.
struct CaseLimit {
  std::string pattern = "*";
  std::string arm = "*";                        // glob over the deterministic arms
  std::optional<double> max_overhead_ratio;     // det / fast
  std::optional<double> min_tokens_per_second;  // of the fast arm
  std::optional<double> max_memory_peak_bytes;  // of any arm
};

struct FleetRules {
  double false_accusation_ratio = 0;  // of fleets without a bad node, in which any is named
  double slow_ratio = 0;  // a fast step that is less slower than the fleet's median is no fault
  double odd_ratio = 0;   // likewise of the deterministic ratio, both ways
  int64_t min_nodes = 0;  // fewer cannot tell which of them is odd
};

// What a cluster must keep to be accepted. Data alone: a file of configs/acceptance/, laid over its default.yaml, where each value has
// its reason.
struct AcceptanceRules {
  std::string name;
  std::vector<CaseLimit> limits;  // all that match are judged
  FleetRules fleet;
  double max_rank_ratio = 0;                 // a rank's step time over its node's median rank
  double max_memory_estimate_ratio = 0;      // peak over the plan's estimate
  double max_memory_fleet_ratio = 0;         // peak over the fleet's median
  std::vector<std::string> evidence_scopes;  // must be tested and equal for arms that claim
  bool fast_must_differ = false;  // else a case that cannot show a difference is inconclusive
  int64_t max_attempts = 0;       // of a case on a node
  BaselineSettings baseline;
  int64_t devices_per_node = 0;  // 0: not checked
  double idle_busy_ratio = 0, idle_timeout_seconds = 0, idle_interval_seconds = 0;
  double bandwidth_min_message_bytes = 0;  // smaller messages show that ranks are connected
  std::optional<double> min_bus_bytes_per_second;
};

// By name in configs/acceptance/ or by path. Throws Error{config} on a key that does not exist or a value out of its range.
AcceptanceRules load_acceptance_rules(const std::string& name_or_path,
                                      const std::vector<Override>& overrides = {});

}  // namespace dettax
