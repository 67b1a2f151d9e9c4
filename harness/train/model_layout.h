#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/case.h"

namespace dettax {

// One trainable tensor: its name, shape and how it starts.
struct ParameterSpec {
  std::string name;
  int64_t rows = 1;
  int64_t columns = 0;
  bool matrix = false;   // two-dimensional; weight decay is for these
  float constant = 0;    // vectors start at it
  double deviation = 0;  // matrices start normally distributed
  int64_t initialised_rows =
      0;  // of a matrix; the rest is padding of the vocabulary and stays zero

  int64_t count() const { return rows * columns; }
};

// Indices into ModelLayout::parameters; absent is kNoParameter.
inline constexpr int kNoParameter = -1;
struct LinearParameters {
  int weight = kNoParameter, bias = kNoParameter;
};
struct NormParameters {
  int gamma = kNoParameter, beta = kNoParameter;
};
struct LayerParameters {
  NormParameters norm1, norm2;
  LinearParameters qkv, projection, up, down;  // up: gate and up in one for swiglu
};

// The trainable tensors of a model in forward order, which is also their order in memory.
struct ModelLayout {
  std::vector<ParameterSpec> parameters;
  int embedding = kNoParameter;
  int position = kNoParameter;
  std::vector<LayerParameters> layers;
  NormParameters final_norm;
  int head = kNoParameter;  // the embedding if tied
};

ModelLayout make_model_layout(const Model& model);

inline int64_t attention_width(const Model& model) { return model.heads * model.head_width; }
inline int64_t qkv_width(const Model& model) {
  return (model.heads + 2 * model.key_value_heads) * model.head_width;
}
inline int64_t up_width(const Model& model) {
  return (model.activation == Activation::swiglu ? 2 : 1) * model.ffn_width;
}

}  // namespace dettax
