#pragma once

#include "results/analysis/projection/op_cost.h"
#include "results/analysis/projection/pipeline_engine.h"

namespace dettax {

// What data parallelism moves for one chunk of layers on one rank: gradients out, weights in.
struct ChunkTraffic {
  double reduce_seconds = 0;
  double gather_seconds = 0;
  double buckets = 1;
};
// In the order of run_pipeline's times.
std::vector<ChunkTraffic> chunk_traffic(const Situation& situation, const Schedule& schedule);

// What of it a step sees: the tail behind the last backward pass, the wait before the first forward passes.
struct DataTimes {
  double tail = 0;  // beyond the pipeline's own end
  double wait = 0;
};
DataTimes data_times(const Situation& situation, const Schedule& schedule,
                     const std::vector<ChunkTraffic>& traffic, const std::vector<PassTimes>& passes,
                     const PipelineTimes& times);

// Weights that are gathered layer by layer in each pass (zero3): what that adds to the passes of a chunk.
void add_gathering(const Situation& situation, const Schedule& schedule,
                   std::vector<PassTimes>& passes);

// Of the rank with the most parameters.
double parameters_per_rank(const TrainingPlan& plan);
// The optimizer's pass over its share of the state, the gradient norm before it and the digest of a deterministic mode.
double optimizer_seconds(const Situation& situation);

}  // namespace dettax
