#pragma once

#include "harness/train/step_context.h"

namespace dettax {

// The two ends of the model: token and position tables in front, final norm, head and loss behind.

// buffers.input from buffers.tokens.
void embedding_forward(StepContext& c);
// Gradients of the tables from buffers.d_residual. They are added to what is there: a tied table's gradient was written by the head.
void embedding_backward(StepContext& c);

// losses of this micro-batch and their sum in loss_sums[c.micro_batch]; x is the residual stream behind the last layer. With the fused
// loss the gradients of head and norm output are made here too.
void head_forward(StepContext& c, const Tensor& x);
// d_residual and the gradients of head and final norm.
void head_backward(StepContext& c, const Tensor& x);

}  // namespace dettax
