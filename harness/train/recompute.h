#pragma once

#include "harness/train/step_context.h"

namespace dettax {

// Computes again what the forward pass of this layer did not keep, from its input x, as the layout asks for. The same operations on
// the same values, dropout masks included, since they follow from a place and not from a generator's state: the same bits.
void recompute_layer(StepContext& c, const Tensor& x);

}  // namespace dettax
