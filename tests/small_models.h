#pragma once

#include <string>

#include "harness/plan/case.h"
#include "harness/plan/suite.h"

namespace dettax::testing_support {

// GPT-2's design at another size.
struct GptSize {
  std::string name;
  int64_t vocabulary, context, layers, width, heads, ffn_width;
};
inline Model gpt_model(const GptSize& size) {
  Model model;
  model.name = size.name;
  model.vocabulary = size.vocabulary;
  model.context = size.context;
  model.layers = model.published_layers = size.layers;
  model.width = size.width;
  model.heads = model.key_value_heads = size.heads;
  model.head_width = size.width / size.heads;
  model.ffn_width = size.ffn_width;
  model.tied_head = true;
  model.bias = true;
  return model;
}

// Two layers, width 32, a vocabulary of 90 (padded to 128).
inline Model small_gpt_model() {
  return gpt_model({.name = "small",
                    .vocabulary = 90,
                    .context = 24,
                    .layers = 2,
                    .width = 32,
                    .heads = 4,
                    .ffn_width = 64});
}

// Every sum in this order, shared out by a static schedule; all else as in the fast mode.
inline Mode mode_with(const std::string& name, Order order) {
  Mode mode;
  mode.name = name;
  Knobs& k = mode.knobs;
  k.gemm = k.attention = k.embedding = k.norm = k.loss = k.moe = k.grad_norm = k.collectives =
      order;
  k.dynamic_schedule = false;
  return mode;
}

}  // namespace dettax::testing_support
