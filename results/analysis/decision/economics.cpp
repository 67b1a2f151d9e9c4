#include "results/analysis/decision/economics.h"

#include <cmath>

namespace dettax {
namespace {

double cluster_price(const Economics& e) { return e.gpus * e.price_per_gpu_hour; }
double anomalies(const Economics& e) { return e.anomalies_per_gpu_hour * e.gpus * e.run_hours; }

// What one anomaly costs less where it can be replayed.
double saved(const Economics& e) { return anomaly_cost(e, false) - anomaly_cost(e, true); }

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
  const double slower = cluster_price(e) * e.run_hours * e.overhead_ratio;
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

Policy best_policy(const Economics& e) {
  Policy best = Policy::never;
  for (const Policy policy : {Policy::windows, Policy::always}) {
    if (policy_cost(e, policy) < policy_cost(e, best)) best = policy;
  }
  return best;
}

double break_even_overhead(const Economics& e) {
  return e.anomalies_per_gpu_hour * saved(e) / e.price_per_gpu_hour;
}

double always_over_windows_overhead(const Economics& e) {
  const double outside_saved =
      (1 - e.window_hazard_share) * (1 - e.reappearance_probability) * saved(e);
  const double more_time = (1 - e.window_share) * e.price_per_gpu_hour +
                           e.anomalies_per_gpu_hour * anomaly_cost(e, true);
  return e.anomalies_per_gpu_hour * outside_saved / more_time;
}

// The saving has a part that grows with the cluster and one that does not: linear in gpus.
double break_even_gpus(const Economics& e) {
  Economics none = e;
  none.gpus = 0;
  const double fixed = saved(none);
  const double per_gpu = (saved(e) - fixed) / e.gpus;
  const double needed = e.overhead_ratio * e.price_per_gpu_hour / e.anomalies_per_gpu_hour - fixed;
  if (needed <= 0) return 0;
  return per_gpu > 0 ? needed / per_gpu : HUGE_VAL;
}

double window_hazard_per_hour(const Economics& e) {
  const double gain = saved(e);
  return gain > 0 ? cluster_price(e) * e.overhead_ratio / gain : HUGE_VAL;
}

double hours_between_anomalies(const Economics& e) {
  return 1 / (e.anomalies_per_gpu_hour * e.gpus);
}

}  // namespace dettax
