#pragma once

#include <vector>

#include "results/analysis/projection/simulate.h"

namespace dettax {

// What a deterministic mode costs in a simulated step.
struct CausePart {
  CostCause cause;
  double ratio = 0;  // added to the fast step by this knob alone, of the fast step
};
struct ProjectedTax {
  double typical = 0;                // with every factor at the median of its range
  double p10 = 0, p50 = 0, p90 = 0;  // over draws of the factors
  int draws = 0;
  std::vector<CausePart> parts;  // largest first; with `interaction` they add up to `typical`
  double interaction = 0;
  Projection fast, deterministic;
};

struct TaxRequest {
  const Hardware& machine;
  const TrainingPlan& plan;
  const Mode& mode;
  const Mode& fast;
  const DeterminismRanges& ranges;
  const OpTable* table = nullptr;
  bool lose_tensor_overlap =
      false;  // besides the mode's knobs: Megatron refuses to hide tensor-parallel traffic
  StepJitter jitter = {};
  int samples = 8;
  int draws = 200;
};
ProjectedTax project_tax(const TaxRequest& request);

}  // namespace dettax
