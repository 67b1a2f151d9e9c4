#pragma once

#include <cstdint>

#include "results/analysis/projection/data_parallel.h"
#include "results/analysis/projection/jitter.h"
#include "results/analysis/projection/layer_cost.h"
#include "results/analysis/projection/memory.h"

namespace dettax {

// One simulated step.
struct Projection {
  double step_seconds = 0;
  double step_deviation = 0;  // of single steps, standard
  // What the step is made of, in the order of time; they add up to step_seconds.
  double gather_wait = 0;         // weights that had not arrived
  double compute = 0;             // of the busiest stage, with the traffic its passes expose
  double mean_stage_compute = 0;  // likewise, mean over stages; no part of the sum
  double bubble = 0;              // the rest of the pipeline's time
  double reduce_tail = 0;         // gradients behind the last backward pass
  double optimizer = 0;
  double host = 0;
  double slowest_rank = 0;  // devices differ, and all wait for the slowest
  double jitter = 0;        // what passing noise adds
  double tokens_per_second = 0;
  double mfu_ratio = 0;  // of the plan's precision's peak
  ProjectedMemory memory;
};

// Without noise: the mean step if every pass took its mean. Throws Error{config} where plan_refusal has a reason.
Projection simulate(const Situation& situation);
// With it: means over `samples` steps of the slowest of all replicas.
Projection simulate(const Situation& situation, const StepJitter& jitter, int samples);

}  // namespace dettax
