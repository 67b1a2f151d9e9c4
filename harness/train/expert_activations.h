#pragma once

#include <cstdint>

#include "harness/device/expert_calls.h"
#include "harness/plan/layout.h"
#include "harness/plan/local_sizes.h"
#include "harness/train/arena.h"

namespace dettax {

// What the forward pass of a mixture-of-experts layer keeps. M = rows of a micro-batch, K = choices of a token, N = M K rows that go
// to experts, R = rows that the experts of this rank get at most, S = samples, E = experts of the layer, H those held here.
struct ExpertActivations {
  Tensor probabilities, experts, weights;  // [M,E], i32 [M,K], [M,K]
  ExpertPlan plan;                         // of this rank's tokens over all experts
  // Of the rows that the experts here got: i32 [H, ranks * S + 1], each sender's samples after those of the one before. The plan's own
  // where experts are not spread over ranks.
  Tensor segments;
  // i32 [R]: for each row of the experts where it came in, and the inverse.
  Tensor arrivals, departures;
  Tensor input, up, activated;  // [R,C], [R, gate and up], [R,F]
  Tensor output;                // [N,C]: back with their tokens, not yet weighted
};

// Alive within one layer.
struct ExpertScratch {
  Tensor logits;             // [M,E], and their gradient
  Tensor d_weights;          // [M,K]
  Tensor rows;               // [N,C] on the side of the tokens
  Tensor expert_rows;        // [R,C] on the side of the experts
  Tensor exchanged;          // [R,C] as they came in; only where ranks exchange rows
  Tensor d_activated, d_up;  // [R,F], [R, gate and up]
  Tensor sums;    // rows of the residual stream, summed over tensor ranks; only with those
  Tensor before;  // i32 [2S,E] of PlanExperts; only where ranks share sequences
};

struct ExpertShapes {
  ExpertSizes sizes;
  int64_t samples, rows, width;  // of a micro-batch
  int64_t ranks;                 // that share the experts
  int64_t summed_rows;           // of the residual stream, where tensor ranks add them up; else 0
  bool sequences_cut;            // over ranks
};
// What a layer keeps: which experts were chosen always, since chosen again they could be others; the rest are those of `recomputed`,
// with selective recomputation the activation function's result, with full all rows.
ExpertActivations take_expert_layer(Arena& arena, const ExpertShapes& shapes, Recompute recompute,
                                    const ExpertActivations& recomputed);
ExpertActivations take_recomputed_experts(Arena& arena, const ExpertShapes& shapes,
                                          Recompute recompute);
ExpertScratch take_expert_scratch(Arena& arena, const ExpertShapes& shapes);

}  // namespace dettax
