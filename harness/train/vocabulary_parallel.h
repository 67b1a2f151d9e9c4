#pragma once

#include "harness/train/step_context.h"

namespace dettax {

// The loss where each rank of mesh.tensor() has some columns of the logits: ranks meet for the maximum of each row, and for the sum of
// its exponentials and the logit of its target. Losses are the same on all of them.

struct LossRows {
  Tensor losses, logits, targets;
};
// Writes losses; logits become their gradients.
void vocabulary_parallel_loss(StepContext& c, const LossRows& rows);

// Head and loss in chunks of rows, as Ops::fused_linear_cross_entropy: losses, the gradient of the norm's output and of the head.
void fused_vocabulary_parallel_loss(StepContext& c);

}  // namespace dettax
