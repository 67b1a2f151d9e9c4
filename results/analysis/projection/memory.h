#pragma once

#include "results/analysis/projection/op_cost.h"

namespace dettax {

// Bytes on the rank that needs most.
struct ProjectedMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  double total() const { return weights + gradients + optimizer + activations + workspace; }
};

// Activations of a layer and micro-batch by Korthikanti et al. 2022 (arXiv:2205.05198, section 4), extended to gated layers, grouped
// key-value heads, flash attention and experts.
double layer_activation_bytes(const TrainingPlan& plan, bool moe_layer);
ProjectedMemory projected_memory(const TrainingPlan& plan);

}  // namespace dettax
