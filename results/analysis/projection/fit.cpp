#include "results/analysis/projection/fit.h"

#include <algorithm>

namespace dettax {
namespace {

using Objective = std::function<double(const std::vector<double>&)>;

bool try_both_ways(FitResult& best, size_t which, const FitRange& range, double step,
                   const Objective& objective) {
  for (const double factor : {1 + step, 1 / (1 + step)}) {
    std::vector<double> changed = best.values;
    changed[which] = std::clamp(changed[which] * factor, range.low, range.high);
    const double value = objective(changed);
    if (value >= best.objective) continue;
    best = {std::move(changed), value};
    return true;
  }
  return false;
}

}  // namespace

FitResult pattern_search(std::vector<double> start, const std::vector<FitRange>& ranges,
                         const Objective& objective) {
  constexpr int kRounds = 100;
  constexpr double kFirstStep = 0.3, kLastStep = 0.002;
  for (size_t i = 0; i < start.size(); ++i)
    start[i] = std::clamp(start[i], ranges[i].low, ranges[i].high);
  const double first = objective(start);
  FitResult best{std::move(start), first};
  double step = kFirstStep;
  for (int round = 0; round < kRounds && step > kLastStep; ++round) {
    bool better = false;
    for (size_t i = 0; i < best.values.size(); ++i)
      better = try_both_ways(best, i, ranges[i], step, objective) || better;
    if (!better) step /= 2;
  }
  return best;
}

}  // namespace dettax
