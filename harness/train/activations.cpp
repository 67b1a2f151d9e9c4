#include "harness/train/activations.h"

#include "harness/device/ops.h"
#include "harness/plan/local_sizes.h"

namespace dettax {
namespace {

struct Shapes {
  const Model& model;
  LocalSizes sizes;
  int64_t samples, tokens, rows;
  int64_t own_rows;  // of the residual stream
};

void take_norm(Arena& arena, const Shapes& s, Tensor& y, Tensor& mean, Tensor& rstd) {
  y = arena.floats({s.own_rows, s.model.width});
  if (s.model.norm == NormKind::layer_norm) mean = arena.floats({s.own_rows});
  rstd = arena.floats({s.own_rows});
}

LayerActivations take_layer(Arena& arena, const Shapes& s) {
  LayerActivations layer;
  take_norm(arena, s, layer.norm1, layer.mean1, layer.rstd1);
  layer.qkv = arena.floats({s.rows, s.sizes.qkv_width});
  layer.attention = arena.floats({s.rows, s.sizes.attention_width});
  layer.log_sum_exp = arena.floats({s.samples, s.sizes.heads, s.tokens});
  layer.middle = arena.floats({s.own_rows, s.model.width});
  take_norm(arena, s, layer.norm2, layer.mean2, layer.rstd2);
  layer.up = arena.floats({s.rows, s.sizes.up_width});
  layer.activated = arena.floats({s.rows, s.sizes.ffn_width});
  layer.output = arena.floats({s.own_rows, s.model.width});
  return layer;
}

void take_gradients(Arena& arena, const Shapes& s, Activations& a) {
  a.d_residual = arena.floats({s.own_rows, s.model.width});
  if (s.model.dropout > 0) a.d_branch = arena.floats({s.own_rows, s.model.width});
  a.d_norm = arena.floats({s.own_rows, s.model.width});
  a.d_activated = arena.floats({s.rows, s.sizes.ffn_width});
  a.d_up = s.model.activation == Activation::swiglu ? arena.floats({s.rows, s.sizes.up_width})
                                                    : a.d_activated;
  a.d_attention = arena.floats({s.rows, s.sizes.attention_width});
  a.d_qkv = arena.floats({s.rows, s.sizes.qkv_width});
}

// What ranks that share layers exchange.
void take_exchange(Arena& arena, const Shapes& s, const Layout& layout, int64_t chunk_rows,
                   Activations& a) {
  a.maxima = arena.floats({layout.tp, chunk_rows});
  a.row_sums = arena.floats({2, chunk_rows});
  if (!layout.sequence_parallel) return;
  a.all_rows = arena.floats({s.rows, s.model.width});
  a.d_all_rows = arena.floats({s.rows, s.model.width});
  const int64_t vectors = s.model.bias && s.model.norm == NormKind::layer_norm ? 2 : 1;
  a.norm_gradients = arena.floats({(2 * s.model.layers + 1) * vectors * s.model.width});
}

}  // namespace

int64_t logit_rows(const Case& planned, const Knobs& knobs, int64_t vocabulary) {
  const int64_t rows = planned.batch.micro * planned.batch.sequence_length;
  if (!knobs.fused_loss) return rows;
  return fused_loss_chunk_rows(rows, vocabulary, planned.batch.micro, knobs.gemm);
}

Activations lay_out_activations(const Case& planned, const Knobs& knobs, Arena& arena) {
  const int64_t tokens = planned.batch.sequence_length;
  const int64_t rows = planned.batch.micro * tokens;
  const Layout& layout = planned.layout;
  const int64_t own_rows = layout.sequence_parallel ? rows / layout.tp : rows;
  const Shapes s{
      planned.model, local_sizes(planned.model, layout.tp, 0), planned.batch.micro, tokens, rows,
      own_rows};
  const int64_t chunk_rows = logit_rows(planned, knobs, s.sizes.vocabulary);
  Activations a;
  a.tokens = arena.take(DType::i32, {s.rows});
  a.targets = arena.take(DType::i32, {s.rows});
  a.embedding = arena.floats({s.own_rows, s.model.width});
  for (int64_t i = 0; i < s.model.layers; ++i) a.layers.push_back(take_layer(arena, s));
  take_norm(arena, s, a.final_norm, a.final_mean, a.final_rstd);
  a.logits = arena.floats({chunk_rows, s.sizes.vocabulary});
  a.losses = arena.floats({s.rows});
  a.loss_sums = arena.floats({planned.micro_batches()});
  a.loss = arena.floats({1});
  a.norm_squares = arena.floats({1});
  a.clip = arena.floats({1});
  take_gradients(arena, s, a);
  if (layout.tp > 1) take_exchange(arena, s, layout, chunk_rows, a);
  return a;
}

}  // namespace dettax
