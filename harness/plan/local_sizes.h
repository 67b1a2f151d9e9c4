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

// Elements of the largest operand of a linear layer on one rank, by its part: what is multiplied, the
// weight, the gradient of the output.
struct OperandSizes {
  int64_t input = 0, weight = 0, gradient = 0;
};
OperandSizes operand_sizes(const Case& planned);

}  // namespace dettax
