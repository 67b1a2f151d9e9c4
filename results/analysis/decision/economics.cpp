#include "results/analysis/decision/economics.h"

#include <algorithm>

namespace dettax {
namespace {

double cluster_price(const Economics& e) { return e.gpus * e.price_per_gpu_hour; }
// Of the cluster, and of everyone who waits for the run.
double hour_price(const Economics& e) { return cluster_price(e) + e.delay_price_per_hour; }
double anomalies(const Economics& e) { return e.anomalies_per_gpu_hour * e.gpus * e.run_hours; }

}  // namespace

const char* to_string(Policy policy) {
  switch (policy) {
    case Policy::never:
      return "never";
    case Policy::windows:
      return "windows";
    case Policy::always:
      return "always";
  }
  return "";
}

double anomaly_cost(const Economics& e, bool deterministic) {
  const double blocked = deterministic ? e.blocked_hours_deterministic : e.blocked_hours_fast;
  const double escapes =
      deterministic ? e.escape_probability_deterministic : e.escape_probability_fast;
  const double engineers = deterministic ? e.engineer_hours_deterministic : e.engineer_hours_fast;
  return cluster_price(e) * (blocked + escapes * e.escape_hours) +
         e.engineer_price_per_hour * engineers + e.delay_price_per_hour * blocked;
}

double policy_cost(const Economics& e, Policy policy) {
  const double slower = hour_price(e) * e.run_hours * e.overhead_ratio;
  const double fast = anomaly_cost(e, false);
  const double deterministic = anomaly_cost(e, true);
  switch (policy) {
    case Policy::never:
      return anomalies(e) * fast;
    case Policy::always:
      // The run is longer, and meets more of them.
      return slower + anomalies(e) * (1 + e.overhead_ratio) * deterministic;
    case Policy::windows: {
      const double outside =
          e.reappearance_probability * deterministic + (1 - e.reappearance_probability) * fast;
      return slower * e.window_share + anomalies(e) * (e.window_hazard_share * deterministic +
                                                       (1 - e.window_hazard_share) * outside);
    }
  }
  return 0;
}

Policy cheapest_of(const PolicyCosts& costs) {
  const auto least = std::min_element(costs.begin(), costs.end());
  return static_cast<Policy>(least - costs.begin());
}

PolicyCosts policy_costs(const Economics& e) {
  return {policy_cost(e, Policy::never), policy_cost(e, Policy::windows),
          policy_cost(e, Policy::always)};
}

double break_even_overhead(const Economics& e) {
  return e.anomalies_per_gpu_hour * e.gpus * anomaly_saving(e) / hour_price(e);
}

double anomaly_saving(const Economics& e) { return anomaly_cost(e, false) - anomaly_cost(e, true); }

double slower_hour_cost(const Economics& e) { return hour_price(e) * e.overhead_ratio; }

}  // namespace dettax
