#pragma once

#include "harness/train/loss_scale.h"
#include "harness/train/step_context.h"

namespace dettax {

struct Update {
  float gradient_norm = 0;  // before clipping, without the loss scale
  bool skipped =
      false;  // gradients overflowed and the loss scale will be smaller: no weight was changed
};

// Norm of all gradients, clipping by it, AdamW. `t` counts updates from 1.
Update update_weights(StepContext& c, const Optimizer& settings, LossScale& loss_scale, int64_t t);

}  // namespace dettax
