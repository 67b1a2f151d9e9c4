#pragma once

#include <cstdint>

#include "harness/plan/case.h"

namespace dettax {

// What tensor parallelism leaves of a model's wide dimensions to one rank. The residual stream keeps
// its width.
struct LocalSizes {
  int64_t heads = 0, key_value_heads = 0;
  int64_t attention_width = 0, qkv_width = 0;
  int64_t ffn_width = 0;
  int64_t up_width = 0;         // gate and up in one for swiglu
  int64_t vocabulary = 0;       // rows of a token table and columns of the logits
  int64_t first_token = 0;      // the id of the first of them
  int64_t real_vocabulary = 0;  // how many of them are no padding
};
LocalSizes local_sizes(const Model& model, int tp, int tp_index);

// Of a mixture-of-experts layer on one rank; all 0 in a model without one. A row is a token for one of its experts.
struct ExpertSizes {
  int64_t experts = 0;  // of the layer
  int64_t held = 0;     // here
  int64_t choices = 0;  // of a token
  int64_t width = 0, up_width = 0;
  int64_t shared_width = 0, shared_up_width = 0;
  int64_t capacity = 0;  // rows of an expert and a sample at most; 0: no limit
  int64_t sent = 0;      // rows that the tokens of a micro-batch make
  int64_t received = 0;  // rows that the experts here get, at most
};
ExpertSizes expert_sizes(const Case& planned);

// Elements of the largest operand of a linear layer on one rank, by its part: what is multiplied, the
// weight, the gradient of the output.
struct OperandSizes {
  int64_t input = 0, weight = 0, gradient = 0;
};
OperandSizes operand_sizes(const Case& planned);

// Whether a mode adds its gradients over micro-batches as a tree (harness/train/gradient_tree.h): where the order of one of them is
// invariant.
bool gradients_as_tree(const Knobs& knobs);
// Whether the two uses of a tied table keep gradients of their own until all is added. They write one unless sums over micro-batches or
// ranks are to form a tree: (head0 + head1) + (embedding0 + embedding1) is what one micro-batch of all samples gives, (head0 +
// embedding0) + ... is not. Stages of a pipeline hold one use each.
bool tied_uses_apart(const Case& planned, const Knobs& knobs);

}  // namespace dettax
