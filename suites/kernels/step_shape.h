#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dettax {

// The shape in which the kernels of a step are measured, and what of a step it has. The defaults are those of a shape that stands for no
// case: all kernels are measured in it.
struct StepShape {
  std::string model;
  int64_t samples = 0, tokens = 0, width = 0, heads = 0, layers = 0, vocabulary = 0, parameters = 0;
  bool of_case = false;  // only the kernels that its step calls
  int64_t key_value_heads = 0, head_width = 0,
          ffn_width = 0;  // 0: heads, width / heads, 8 / 3 width
  bool rms_norm = false, swiglu = false, rope = false;
  bool drops_out = false;
  bool recomputes_cheap = false, recomputes_all = false;  // of a layer's forward, in the backward
  int64_t micro_batches = 1;
  int64_t expert_layers = 0, experts = 8, choices = 2, expert_width = 0, shared_width = 0;

  int64_t rows() const { return samples * tokens; }
  int64_t key_heads() const { return key_value_heads > 0 ? key_value_heads : heads; }
  int64_t head_columns() const { return head_width > 0 ? head_width : width / heads; }
  int64_t attention_width() const { return heads * head_columns(); }
  int64_t qkv_width() const { return attention_width() + 2 * key_heads() * head_columns(); }
  int64_t inner_width() const { return ffn_width > 0 ? ffn_width : 8 * width / 3; }
};

// `NAME,key=number,...` of the members above; nothing if it is of another form. What every shape has must be there.
std::optional<StepShape> parse_step_shape(std::string_view text);

// How often a step of the shape makes each call, over all its micro-batches; 0: never.
struct StepCalls {
  explicit StepCalls(const StepShape& shape);

  int64_t once = 1;  // of the optimizer
  int64_t ends = 0;  // of embedding, head and loss, each way
  int64_t norm_forward = 0, norm_backward = 0;
  int64_t attention_forward = 0, attention_backward = 0, rope = 0;
  int64_t swiglu_forward = 0, swiglu_backward = 0;  // of MLPs
  int64_t dropout = 0, add = 0;
  int64_t expert_plan = 0, expert_permute = 0, expert_unpermute = 0;
  int64_t expert_forward = 0, expert_backward = 0;  // of each of the experts' two products
};

// A product of a linear layer, by all its calls of one shape.
struct LinearCalls {
  int64_t inputs = 0, outputs = 0;
  int64_t forward = 0, backward = 0;
};
std::vector<LinearCalls> linear_calls(const StepShape& shape);

}  // namespace dettax
