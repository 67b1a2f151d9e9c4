#pragma once

#include <cstdint>
#include <vector>

#include "results/record.h"

namespace dettax {

// Step times as they count: of blocks that were not repeated, the slowest rank of each step.
std::vector<double> step_times(const Block& block);
std::vector<double> step_times(const ArmResult& arm);

// The blocks of an arm in so many stretches of time, or one a block if there are fewer; each by its median step.
struct Stretch {
  int64_t steps = 0;
  double step_seconds = 0;
};
std::vector<Stretch> stretches_of(const ArmResult& arm, size_t count);

// Not finite where there are too few values.
struct Moments {
  double mean = 0, median = 0, stddev = 0;
};
Moments moments_of(const std::vector<double>& values);
// Linear between neighbours; `values` must be sorted and not empty.
double quantile_of_sorted(const std::vector<double>& values, double share);

}  // namespace dettax
