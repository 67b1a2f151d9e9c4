#include "harness/train/activations.h"

#include <algorithm>
#include <initializer_list>

#include "harness/device/ops.h"
#include "harness/plan/local_sizes.h"

namespace dettax {
namespace {

void take_norm(Arena& arena, const ActivationShapes& s, Tensor& y, Tensor& mean, Tensor& rstd) {
  y = arena.floats({s.own_rows, s.model.width});
  if (s.model.norm == NormKind::layer_norm) mean = arena.floats({s.own_rows});
  rstd = arena.floats({s.own_rows});
}

// Of the MLP of a layer, or of its shared expert.
struct MlpWidths {
  int64_t inner, up;
};
MlpWidths dense_widths(const ActivationShapes& s) { return {s.sizes.ffn_width, s.sizes.up_width}; }
MlpWidths shared_widths(const ActivationShapes& s) {
  return {s.experts.sizes.shared_width, s.experts.sizes.shared_up_width};
}
MlpWidths mlp_widths(const ActivationShapes& s, int64_t layer) {
  return has_experts(s.model, layer) ? shared_widths(s) : dense_widths(s);
}
// The widest of all layers.
MlpWidths widest_mlp(const ActivationShapes& s) {
  MlpWidths widest{0, 0};
  for (int64_t layer = 0; layer < s.model.layers; ++layer) {
    const MlpWidths here = mlp_widths(s, layer);
    widest = {std::max(widest.inner, here.inner), std::max(widest.up, here.up)};
  }
  return widest;
}

// What is cheap to compute again for the memory it takes.
void take_cheap(Arena& arena, const ActivationShapes& s, const MlpWidths& mlp,
                LayerActivations& layer) {
  take_norm(arena, s, layer.norm1, layer.mean1, layer.rstd1);
  layer.attention = arena.floats({s.rows, s.sizes.attention_width});
  layer.log_sum_exp = arena.floats({s.samples, s.sizes.heads, s.tokens});
  take_norm(arena, s, layer.norm2, layer.mean2, layer.rstd2);
  layer.activated = arena.floats({s.rows, mlp.inner});
}

// What matrix products made.
void take_products(Arena& arena, const ActivationShapes& s, const MlpWidths& mlp,
                   LayerActivations& layer) {
  layer.qkv = arena.floats({s.rows, s.sizes.qkv_width});
  layer.middle = arena.floats({s.own_rows, s.model.width});
  layer.up = arena.floats({s.rows, mlp.up});
}

void take_gradients(Arena& arena, const ActivationShapes& s, Activations& a) {
  if (s.model.dropout > 0) a.d_branch = arena.floats({s.own_rows, s.model.width});
  a.d_norm = arena.floats({s.own_rows, s.model.width});
  const MlpWidths mlp = widest_mlp(s);
  a.d_activated = arena.floats({s.rows, mlp.inner});
  a.d_up =
      s.model.activation == Activation::swiglu ? arena.floats({s.rows, mlp.up}) : a.d_activated;
  a.d_attention = arena.floats({s.rows, s.sizes.attention_width});
  a.d_qkv = arena.floats({s.rows, s.sizes.qkv_width});
}

void take_head(Arena& arena, const ActivationShapes& s, int64_t micro_batches, int64_t chunk_rows,
               Activations& a) {
  take_norm(arena, s, a.final_norm, a.final_mean, a.final_rstd);
  a.logits = arena.floats({chunk_rows, s.sizes.vocabulary});
  a.losses = arena.floats({s.rows});
  a.loss_sums = arena.floats({micro_batches});
}

// What ranks that share layers exchange.
void take_exchange(Arena& arena, const ActivationShapes& s, const Layout& layout,
                   const Stage& stage, int64_t chunk_rows, Activations& a) {
  if (stage.has_head()) {
    a.maxima = arena.floats({layout.tp, chunk_rows});
    a.row_sums = arena.floats({2, chunk_rows});
  }
  if (!layout.sequence_parallel) return;
  a.all_rows = arena.floats({s.rows, s.model.width});
  a.d_all_rows = arena.floats({s.rows, s.model.width});
  const int64_t vectors = s.model.bias && s.model.norm == NormKind::layer_norm ? 2 : 1;
  const int64_t norms = 2 * stage.layers() + (stage.has_head() ? 1 : 0);
  a.norm_gradients = arena.floats({norms * vectors * s.model.width});
}

// Two ranks finish the only sum that goes around where it begins.
void take_ring(Arena& arena, const ActivationShapes& s, int ranks, Activations& a) {
  const int64_t columns = s.sizes.qkv_width - s.sizes.attention_width;
  for (Tensor& tensor : a.keys_values) tensor = arena.floats({s.rows, columns});
  for (int i = 0; i < std::min(ranks, 3); ++i)
    a.d_keys_values[static_cast<size_t>(i)] = arena.floats({s.rows, columns});
}

Tensor shaped(const Tensor& memory, std::initializer_list<int64_t> shape) {
  return make_tensor(memory.data, DType::f32, shape);
}

}  // namespace

int64_t logit_rows(const Case& planned, const Knobs& knobs, int64_t vocabulary) {
  const int64_t rows = planned.batch.micro * planned.local_sequence_length();
  if (!knobs.fused_loss) return rows;
  return fused_loss_chunk_rows(rows, vocabulary, planned.batch.micro, knobs.gemm);
}

ActivationShapes activation_shapes(const Case& planned) {
  const Layout& layout = planned.layout;
  const int64_t tokens = planned.local_sequence_length();
  const int64_t rows = planned.batch.micro * tokens;
  const int64_t own_rows = layout.sequence_parallel ? rows / layout.tp : rows;
  return {planned.model,
          local_sizes(planned.model, layout.tp, 0),
          planned.batch.micro,
          tokens,
          rows,
          own_rows,
          {expert_sizes(planned), planned.batch.micro, rows, planned.model.width, layout.ep,
           layout.tp > 1 ? own_rows : 0, layout.cp > 1}};
}

LayerActivations take_layer(Arena& arena, const ActivationShapes& shapes, Recompute recompute,
                            const LayerActivations& recomputed, int64_t index) {
  const MlpWidths mlp = mlp_widths(shapes, index);
  LayerActivations layer = recomputed;
  if (recompute == Recompute::none) take_cheap(arena, shapes, mlp, layer);
  if (recompute != Recompute::full) take_products(arena, shapes, mlp, layer);
  // Layers with MLPs of other widths share the memory of what is computed again.
  if (recompute != Recompute::none)
    layer.activated = shaped(recomputed.activated, {shapes.rows, mlp.inner});
  if (recompute == Recompute::full) layer.up = shaped(recomputed.up, {shapes.rows, mlp.up});
  if (has_experts(shapes.model, index))
    layer.experts = take_expert_layer(arena, shapes.experts, recompute, recomputed.experts);
  return layer;
}

LayerActivations take_recomputed(Arena& arena, const ActivationShapes& shapes,
                                 Recompute recompute) {
  LayerActivations layer;
  const MlpWidths mlp = widest_mlp(shapes);
  if (recompute != Recompute::none) take_cheap(arena, shapes, mlp, layer);
  if (recompute == Recompute::full) take_products(arena, shapes, mlp, layer);
  if (shapes.model.moe) layer.experts = take_recomputed_experts(arena, shapes.experts, recompute);
  return layer;
}

Tensor take_residual(Arena& arena, const ActivationShapes& shapes) {
  return arena.floats({shapes.own_rows, shapes.model.width});
}

int64_t losses_with_stream(const ActivationShapes& shapes) {
  return shapes.model.moe && shapes.model.moe->balance_weight > 0 ? shapes.rows : 0;
}

Tensor take_stream(Arena& arena, const ActivationShapes& shapes) {
  const int64_t width = shapes.model.width;
  Tensor stream = arena.floats({shapes.own_rows * width + losses_with_stream(shapes)});
  return make_tensor(stream.data, DType::f32, {shapes.own_rows, width});
}

Tensor take_ids(Arena& arena, const ActivationShapes& shapes) {
  return arena.take(DType::i32, {shapes.rows});
}

Activations take_shared(Arena& arena, const ActivationShapes& s, const Case& planned,
                        const Knobs& knobs, const Stage& stage) {
  const int64_t chunk_rows = logit_rows(planned, knobs, s.sizes.vocabulary);
  const Layout& layout = planned.layout;
  Activations a;
  if (stage.has_head()) take_head(arena, s, planned.micro_batches(), chunk_rows, a);
  a.loss = arena.floats({1});
  a.norm_squares = arena.floats({1});
  a.clip = arena.floats({1});
  take_gradients(arena, s, a);
  if (s.model.moe) a.experts = take_expert_scratch(arena, s.experts);
  if (layout.tp > 1) take_exchange(arena, s, layout, stage, chunk_rows, a);
  if (layout.cp > 1) take_ring(arena, s, layout.cp, a);
  return a;
}

}  // namespace dettax
