#pragma once

#include <array>
#include <cstddef>

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
  double delay_price_per_hour = 0;  // of the project: while blocked, and for a longer run
};

enum class Policy { never, windows, always };
inline constexpr std::array<Policy, 3> kPolicies = {Policy::never, Policy::windows, Policy::always};
// A policy's place in what is kept by policy.
constexpr size_t index_of(Policy policy) { return static_cast<size_t>(policy); }
const char* to_string(Policy policy);

// Cost of one anomaly met in the fast, or in the deterministic mode.
double anomaly_cost(const Economics& e, bool deterministic);
// Expected cost, over the whole run, of what goes beyond undisturbed fast training.
double policy_cost(const Economics& e, Policy policy);
using PolicyCosts = std::array<double, kPolicies.size()>;  // by policy
PolicyCosts policy_costs(const Economics& e);
// never where nothing is cheaper.
Policy cheapest_of(const PolicyCosts& costs);

// Overhead up to which always is cheaper than never, but for the anomalies that the longer run meets.
double break_even_overhead(const Economics& e);
// What one anomaly costs less where it can be replayed.
double anomaly_saving(const Economics& e);
// What an hour of the run costs more where it is deterministic.
double slower_hour_cost(const Economics& e);

}  // namespace dettax
