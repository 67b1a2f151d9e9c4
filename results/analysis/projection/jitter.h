#pragma once

#include <cstdint>
#include <vector>

#include "harness/base/random.h"
#include "results/analysis/projection/schedule.h"

namespace dettax {

// How times scatter. Defaults: GB200 steps varied by 0.19 % (NVIDIA/dgxc-benchmarking d4b7ec0, ten steps, 128 GPUs), which leaves about
// 1 % for a single pass.
struct StepJitter {
  double pass_cv = 0.01;         // of a pass of one chunk, rank by rank and independent
  double step_cv = 0.0015;       // of a replica's whole step
  double slow_host_share = 0;    // of hosts that are slow for the whole step
  double slow_host_ratio = 1.1;  // MegaScale: some hosts about 10 % slower
  int64_t host_ranks = 8;
  uint64_t seed = 1;
};

// Expected largest of n standard normal values.
double expected_maximum(double n);
// One draw of the largest of n standard normal values; many are drawn at once from the extreme-value distribution.
double draw_maximum(const RandomKey& key, uint64_t high, uint64_t low, double n);

// Factor of each task's duration in one sampled step: the slowest of the ranks that work on it together. Counter-based: the same input
// gives the same bits.
std::vector<double> task_factors(const Schedule& schedule, const StepJitter& jitter,
                                 int64_t ranks_together, uint64_t step);

}  // namespace dettax
