#pragma once

#include <string>
#include <vector>

namespace dettax {

// What the cost of determinism over a training run depends on. Money in one currency, times in hours.
struct Economics {
  double gpus = 0;
  double run_hours = 0;
  double overhead_ratio = 0;  // of a deterministic step's time, 0.04 = 4 % longer
  double price_per_gpu_hour = 0;
  double engineer_price_per_hour = 0;
  double anomalies_per_gpu_hour = 0;
  double blocked_hours_fast = 0, blocked_hours_deterministic = 0;    // of the cluster, an anomaly
  double engineer_hours_fast = 0, engineer_hours_deterministic = 0;  // an anomaly
  double escape_probability_fast = 0, escape_probability_deterministic = 0;
  double escape_hours = 0;  // of the cluster, where the cause stays in the system
  double window_share = 0;  // of the time in deterministic windows
  double window_hazard_share = 0;
  double reappearance_probability = 0;
  double delay_price_per_hour = 0;
};

enum class Policy { never, windows, always };
const char* to_string(Policy policy);

// Cost of one anomaly met in the fast, or in the deterministic mode.
double anomaly_cost(const Economics& e, bool deterministic);
// Expected cost, over the whole run, of what goes beyond undisturbed fast training.
double policy_cost(const Economics& e, Policy policy);
// never where nothing is cheaper.
Policy best_policy(const Economics& e);

// Overhead up to which always is cheaper than never.
double break_even_overhead(const Economics& e);
// Overhead from which windows are cheaper than always; negative: always never is.
double always_over_windows_overhead(const Economics& e);
// GPUs from which on always is cheaper than never; 0 at no overhead.
double break_even_gpus(const Economics& e);
// Anomalies an hour, of the whole cluster, above which a stretch of time is worth running deterministically.
double window_hazard_per_hour(const Economics& e);
double hours_between_anomalies(const Economics& e);

}  // namespace dettax
