#pragma once

#include <cstdint>
#include <vector>

#include "harness/plan/layout.h"

namespace dettax {

// One pass of a micro-batch through one of the chunks of layers that a pipeline stage holds.
struct PipelineAction {
  bool backward = false;
  int64_t micro_batch = 0;
  int chunk =
      0;  // of this stage, 0 .. vp - 1; chunk c of stage s is number c * pp + s of the model
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

// What a stage does in a step, in order. In each direction a chunk sees its micro-batches in ascending order, and neighbouring stages
// pass the same sequence of micro-batches and chunks, so that what is sent first is needed first. With one stage every forward pass
// is followed by its backward pass, unless the schedule is gpipe.
std::vector<PipelineAction> pipeline_schedule(const Layout& layout, int stage,
                                              int64_t micro_batches);

// Micro-batches that chunk `chunk` holds activations of, at most at a time.
int64_t micro_batches_in_flight(const std::vector<PipelineAction>& actions, int chunk);

}  // namespace dettax
