#pragma once

#include "harness/train/step_context.h"

namespace dettax {

// A mixture of experts in place of a layer's MLP: the router gives each token some experts, its row goes to all of them, and their
// results come back as a weighted sum. A shared expert, which every token goes to, is an MLP beside it and none of this file's business.

// Whether the context's layer has one.
bool has_experts(const StepContext& c);

// Before the first layer of a chunk: those of the chunks before it.
void begin_balance_losses(StepContext& c);
// To the losses of tokens, behind the head.
void add_balance_losses(StepContext& c);

// output = residual + the weighted sum, from norm2 of the layer; they may be the same memory.
void experts_forward(StepContext& c, const Tensor& residual, const Tensor& output);
// What recomputation does of it, with the experts that were chosen: all rows up to the experts' results, from norm2, or the activation
// function alone.
void experts_rows_again(StepContext& c);
void experts_activation_again(StepContext& c);
// d_norm (+)= the gradient with respect to norm2 of `dy`, that of the output; with `accumulate` the shared expert's is there already.
void experts_backward(StepContext& c, const Tensor& dy, bool accumulate);

}  // namespace dettax
