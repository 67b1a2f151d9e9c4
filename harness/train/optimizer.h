#pragma once

#include "harness/train/step_context.h"

namespace dettax {

// Norm of all gradients, clipping by it, AdamW. Returns the norm before clipping. `t` counts updates from 1.
float update_weights(StepContext& c, const Optimizer& settings, int64_t t);

}  // namespace dettax
