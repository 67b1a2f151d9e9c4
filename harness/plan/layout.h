#pragma once

#include <cstdint>
#include <string>

namespace dettax {

// In which order a pipeline stage runs the forward and backward passes of its micro-batches.
//  gpipe        all forward, then all backward: activations of every micro-batch are alive
//  one_f_one_b  as soon as one can go backward it does (1F1B): at most `pp` are alive
//  interleaved  1F1B over `vp` chunks of layers a rank (virtual stages): a smaller bubble for more traffic
enum class PipelineSchedule { gpipe, one_f_one_b, interleaved };

// What the backward pass computes again instead of keeping it.
//  none       nothing
//  selective  the attention core and what is cheap to compute: norms and the activation function
//  full       whole layers, from their inputs
enum class Recompute { none, selective, full };

// Sizes of the parallel axes and how they are used. Ranks are counted with tp running fastest, then cp, dp and pp; ep lies inside dp.
struct Layout {
  int dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  int vp = 1;                      // chunks of layers a pipeline stage holds
  bool sequence_parallel = false;  // between tensor-parallel regions each rank has its rows only
  int zero_stage = 0;  // 1: optimizer state sharded over data-parallel ranks; 3: weights too
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  Recompute recompute = Recompute::none;

  int ranks() const { return dp * tp * pp * cp; }
};

// Printed as dp2.tp4.pp2, axes of size 1 left out ("dp1" if all are), then .sp, .zero1, and .gpipe and .selective or .full where
// they are not the default. interleaved shows as .vp2.
std::string to_string(const Layout& layout);

const char* to_string(PipelineSchedule schedule);
const char* to_string(Recompute recompute);

}  // namespace dettax
