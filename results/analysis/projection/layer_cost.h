#pragma once

#include "results/analysis/projection/op_cost.h"
#include "results/analysis/projection/pipeline_engine.h"

namespace dettax {

// Passes of one micro-batch through one layer on one rank, with what tensor, context and expert parallelism expose of their traffic and
// with what is computed again. `pair_hides`: traffic that an overlapped pair of passes (PassTimes::both) would hide.
struct LayerTimes {
  double forward = 0, backward_input = 0, backward_weight = 0;
  double pair_hides = 0;
  double backward() const { return backward_input + backward_weight; }
};
LayerTimes layer_times(const Situation& situation, bool moe_layer);
// Last norm, projection to the vocabulary and loss.
LayerTimes head_times(const Situation& situation);
LayerTimes embedding_times(const Situation& situation);

// Of every chunk of every stage, in the order that run_pipeline wants.
std::vector<PassTimes> chunk_times(const Situation& situation, const Schedule& schedule);

// FLOPs of the model's mathematics in a step: nothing computed again, attention causal.
double model_flops(const TrainingPlan& plan);

}  // namespace dettax
