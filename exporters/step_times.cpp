#include "exporters/step_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dettax {

std::vector<double> step_times(const Block& block) {
  std::vector<double> slowest;
  for (const std::vector<double>& rank : block.step_time_seconds) {
    if (slowest.size() < rank.size()) slowest.resize(rank.size(), 0);
    for (size_t step = 0; step < rank.size(); ++step) {
      // A time that is none stays none.
      slowest[step] = std::isnan(rank[step]) ? rank[step] : std::max(slowest[step], rank[step]);
    }
  }
  std::erase_if(slowest, [](double seconds) { return !std::isfinite(seconds); });
  return slowest;
}

std::vector<double> step_times(const ArmResult& arm) {
  std::vector<double> all;
  for (const Block& block : arm.blocks) {
    if (block.repeated) continue;
    const std::vector<double> steps = step_times(block);
    all.insert(all.end(), steps.begin(), steps.end());
  }
  return all;
}

std::vector<Stretch> stretches_of(const ArmResult& arm, size_t count) {
  std::vector<std::vector<double>> blocks;
  for (const Block& block : arm.blocks) {
    if (block.repeated) continue;
    blocks.push_back(step_times(block));
    if (blocks.back().empty()) blocks.pop_back();
  }
  count = std::min(count, blocks.size());
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> steps;
    for (size_t b = i * blocks.size() / count; b < (i + 1) * blocks.size() / count; ++b)
      steps.insert(steps.end(), blocks[b].begin(), blocks[b].end());
    std::sort(steps.begin(), steps.end());
    stretches.push_back({static_cast<int64_t>(steps.size()), quantile_of_sorted(steps, 0.5)});
  }
  return stretches;
}

Moments moments_of(const std::vector<double>& values) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {kNone, kNone, kNone};
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : sorted) sum += value;
  const double mean = sum / count;
  double squares = 0;
  for (const double value : sorted) squares += (value - mean) * (value - mean);
  const double stddev = values.size() < 2 ? kNone : std::sqrt(squares / (count - 1));
  return {mean, quantile_of_sorted(sorted, 0.5), stddev};
}

double quantile_of_sorted(const std::vector<double>& values, double share) {
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace dettax
