#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "harness/base/format.h"
#include "harness/base/quantiles.h"
#include "harness/base/robust.h"
#include "harness/measure/measure.h"
#include "harness/measure/noise.h"
#include "harness/measure/synchronisation.h"

namespace dettax {
namespace {

// Fewer rounds give an interval that depends on the scatter of two numbers or of none.
constexpr size_t kRoundsForInterval = 3;
constexpr double kPower = 0.8;

// Mean log block median of each round.
std::map<int, double> log_by_round(const std::vector<Block>& blocks) {
  std::map<int, std::pair<double, int>> sums;
  for (const Block& block : blocks) {
    const double seconds = block_seconds(block);
    if (block.repeated || !(seconds > 0)) continue;
    auto& [sum, count] = sums[block.round];
    sum += std::log(seconds);
    ++count;
  }
  std::map<int, double> means;
  for (const auto& [round, sum] : sums) means[round] = sum.first / sum.second;
  return means;
}

struct Spread {
  double mean = 0;
  double standard_error = 0;
};

Spread spread_of(const std::vector<RoundRatio>& ratios) {
  const double n = static_cast<double>(ratios.size());
  Spread spread;
  for (const RoundRatio& one : ratios) spread.mean += one.log_ratio / n;
  double squares = 0;
  for (const RoundRatio& one : ratios)
    squares += (one.log_ratio - spread.mean) * (one.log_ratio - spread.mean);
  spread.standard_error = std::sqrt(squares / (n - 1) / n);
  return spread;
}

}  // namespace

double block_seconds(const Block& block) {
  if (block.step_time_seconds.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (!synchronisation(block).trusted()) return mean_step_seconds(block);
  std::vector<double> slowest = block.step_time_seconds.front();
  for (const std::vector<double>& rank : block.step_time_seconds) {
    slowest.resize(std::min(slowest.size(), rank.size()));
    for (size_t step = 0; step < slowest.size(); ++step)
      slowest[step] = std::max(slowest[step], rank[step]);
  }
  return median(std::move(slowest));
}

std::vector<RoundRatio> round_ratios(const std::vector<Block>& arm,
                                     const std::vector<Block>& fast) {
  const std::map<int, double> base = log_by_round(fast);
  std::vector<RoundRatio> ratios;
  for (const auto& [round, value] : log_by_round(arm)) {
    const auto found = base.find(round);
    if (found != base.end()) ratios.push_back({round, value - found->second});
  }
  return ratios;
}

std::optional<Estimate> paired_ratio(const std::vector<Block>& arm, const std::vector<Block>& fast,
                                     double confidence) {
  const std::vector<RoundRatio> ratios = round_ratios(arm, fast);
  if (ratios.size() < kRoundsForInterval) return std::nullopt;
  const Spread spread = spread_of(ratios);
  const double half =
      spread.standard_error *
      student_t_quantile((1 + confidence) / 2, static_cast<double>(ratios.size() - 1));
  return Estimate{std::exp(spread.mean), std::exp(spread.mean - half), std::exp(spread.mean + half),
                  static_cast<int64_t>(ratios.size())};
}

double min_detectable_ratio(const std::vector<Block>& arm, const std::vector<Block>& fast,
                            double confidence) {
  const std::vector<RoundRatio> ratios = round_ratios(arm, fast);
  if (ratios.size() < kRoundsForInterval) return std::numeric_limits<double>::infinity();
  const double freedom = static_cast<double>(ratios.size() - 1);
  return std::exp(
      spread_of(ratios).standard_error *
      (student_t_quantile((1 + confidence) / 2, freedom) + student_t_quantile(kPower, freedom)));
}

std::optional<Estimate> step_time(const std::vector<Block>& blocks, double confidence) {
  std::vector<double> times;
  for (const Block& block : blocks) {
    const double seconds = block_seconds(block);
    if (!block.repeated && std::isfinite(seconds)) times.push_back(seconds);
  }
  if (times.empty()) return std::nullopt;
  std::sort(times.begin(), times.end());
  const size_t rank = std::max<size_t>(1, median_interval_rank(times.size(), confidence));
  return Estimate{median(times), times[rank - 1], times[times.size() - rank],
                  static_cast<int64_t>(times.size())};
}

double drift_per_hour(const std::vector<Block>& blocks) {
  constexpr double kSecondsPerHour = 3600;
  const Trend found = trend(blocks);
  return found.ratio_per_second * kSecondsPerHour;
}

std::optional<Tax> estimate_tax(const std::string& arm_name, const std::vector<Block>& arm,
                                const std::vector<Block>& fast, const std::vector<Block>& control,
                                double confidence) {
  const std::optional<Estimate> overhead = paired_ratio(arm, fast, confidence);
  if (!overhead) return std::nullopt;
  Tax tax;
  tax.arm = arm_name;
  tax.overhead_ratio = *overhead;
  tax.control_ratio = paired_ratio(control, fast, confidence);
  tax.min_detectable_overhead_ratio = min_detectable_ratio(arm, fast, confidence);
  if (!control.empty())
    tax.min_detectable_overhead_ratio = std::max(tax.min_detectable_overhead_ratio,
                                                 min_detectable_ratio(control, fast, confidence));
  tax.drift_ratio_per_hour = drift_per_hour(fast);
  tax.warnings = noise_warnings(arm_name, arm, fast);
  if (tax.control_ratio && (tax.control_ratio->low > 1 || tax.control_ratio->high < 1)) {
    tax.warnings.push_back("control: fast against itself is " +
                           format_signed_percent(tax.control_ratio->value - 1) +
                           " apart; less than that means nothing here");
  }
  return tax;
}

}  // namespace dettax
