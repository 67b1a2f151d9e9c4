#pragma once

#include "harness/train/stage.h"
#include "harness/train/step_context.h"

namespace dettax {

// A micro-batch through a chunk of layers, from buffers.input or the embedding to the output of its last layer.
void chunk_forward(StepContext& c, const Chunk& chunk);

// And back: from buffers.d_residual behind the last layer to that in front of the first, or from the loss to the embedding. A head
// makes its forward pass here as well: nobody needs its result before, and so its logits exist once.
void chunk_backward(StepContext& c, const Chunk& chunk);

}  // namespace dettax
