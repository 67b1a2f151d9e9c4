#pragma once

#include "harness/train/step_context.h"

namespace dettax {

// One transformer block: x + projection(attention(norm1(x))), then + down(activation(up(norm2(.)))). The context says which layer.

// Reads x [M,C], keeps what the backward pass needs; the result is buffers.layers[layer].output.
void layer_forward(StepContext& c, const Tensor& x);

// The same but for its last product, and with it the result, which the backward pass of the layer does not need.
void layer_up_to_activation(StepContext& c, const Tensor& x);
// Only norms, attention and the activation function, from the products that were kept.
void layer_cheap_parts(StepContext& c, const Tensor& x);

// Turns buffers.d_residual from the gradient of the block's output into that of its input, and adds up the weights' gradients.
void layer_backward(StepContext& c, const Tensor& x);

// The same for one norm, used by the final norm too.
struct NormTensors {
  Tensor y, mean, rstd;
};
void norm_forward(StepContext& c, Op op, const NormParameters& p, const Tensor& x,
                  const NormTensors& out);
// d_residual (+)= the gradient through the norm of d_norm.
void norm_backward(StepContext& c, Op op, const NormParameters& p, const Tensor& x,
                   const NormTensors& kept, bool accumulate_dx);

// y = dropout(x) with the mask of this place, for the forward pass and the gradient alike. Place 0 is the embedding, then two a layer.
void dropout(StepContext& c, Op op, uint32_t place, const Tensor& y, const Tensor& x);

}  // namespace dettax
