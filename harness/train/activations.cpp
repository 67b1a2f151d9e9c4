#include "harness/train/activations.h"

#include "harness/device/ops.h"
#include "harness/train/model_layout.h"

namespace dettax {
namespace {

struct Shapes {
  const Model& model;
  int64_t samples, tokens, rows;
};

void take_norm(Arena& arena, const Shapes& s, Tensor& y, Tensor& mean, Tensor& rstd) {
  y = arena.floats({s.rows, s.model.width});
  if (s.model.norm == NormKind::layer_norm) mean = arena.floats({s.rows});
  rstd = arena.floats({s.rows});
}

LayerActivations take_layer(Arena& arena, const Shapes& s) {
  LayerActivations layer;
  take_norm(arena, s, layer.norm1, layer.mean1, layer.rstd1);
  layer.qkv = arena.floats({s.rows, qkv_width(s.model)});
  layer.attention = arena.floats({s.rows, attention_width(s.model)});
  layer.log_sum_exp = arena.floats({s.samples, s.model.heads, s.tokens});
  layer.middle = arena.floats({s.rows, s.model.width});
  take_norm(arena, s, layer.norm2, layer.mean2, layer.rstd2);
  layer.up = arena.floats({s.rows, up_width(s.model)});
  layer.activated = arena.floats({s.rows, s.model.ffn_width});
  layer.output = arena.floats({s.rows, s.model.width});
  return layer;
}

void take_gradients(Arena& arena, const Shapes& s, Activations& a) {
  a.d_residual = arena.floats({s.rows, s.model.width});
  if (s.model.dropout > 0) a.d_branch = arena.floats({s.rows, s.model.width});
  a.d_norm = arena.floats({s.rows, s.model.width});
  a.d_activated = arena.floats({s.rows, s.model.ffn_width});
  a.d_up = s.model.activation == Activation::swiglu ? arena.floats({s.rows, up_width(s.model)})
                                                    : a.d_activated;
  a.d_attention = arena.floats({s.rows, attention_width(s.model)});
  a.d_qkv = arena.floats({s.rows, qkv_width(s.model)});
}

}  // namespace

Activations lay_out_activations(const Case& planned, const Knobs& knobs, Arena& arena) {
  const int64_t tokens = planned.batch.sequence_length;
  const Shapes s{planned.model, planned.batch.micro, tokens, planned.batch.micro * tokens};
  const int64_t vocabulary = s.model.padded_vocabulary();
  Activations a;
  a.tokens = arena.take(DType::i32, {s.rows});
  a.targets = arena.take(DType::i32, {s.rows});
  a.embedding = arena.floats({s.rows, s.model.width});
  for (int64_t i = 0; i < s.model.layers; ++i) a.layers.push_back(take_layer(arena, s));
  take_norm(arena, s, a.final_norm, a.final_mean, a.final_rstd);
  const int64_t logit_rows =
      knobs.fused_loss ? fused_loss_chunk_rows(s.rows, vocabulary, s.samples, knobs.gemm) : s.rows;
  a.logits = arena.floats({logit_rows, vocabulary});
  a.losses = arena.floats({s.rows});
  a.loss_sums = arena.floats({planned.micro_batches()});
  a.loss = arena.floats({1});
  a.norm_squares = arena.floats({1});
  a.clip = arena.floats({1});
  take_gradients(arena, s, a);
  return a;
}

}  // namespace dettax
