#pragma once

#include <array>
#include <cstdint>

#include "harness/device/tensor.h"
#include "harness/plan/case.h"
#include "harness/plan/local_sizes.h"
#include "harness/train/arena.h"
#include "harness/train/expert_activations.h"
#include "harness/train/stage.h"

namespace dettax {

// What the forward pass of a layer keeps for the backward pass. M = rows of a micro-batch on a rank, samples times T tokens;
// C = width; of heads, MLP width F and vocabulary V what tensor parallelism leaves to this rank. Where rows read R, sequence
// parallelism leaves this rank some of M.
struct LayerActivations {
  Tensor norm1, mean1, rstd1;     // [R,C], [R], [R]; no mean for the rms norm
  Tensor qkv;                     // [M, qkv width]
  Tensor attention, log_sum_exp;  // [M, attention width], [samples, heads, T]
  Tensor middle;                  // [R,C]: the residual stream behind the attention
  Tensor norm2, mean2, rstd2;
  Tensor up;         // before the activation function: [M,F], gate and up [M,2F] for swiglu
  Tensor activated;  // [M,F]
  ExpertActivations experts;  // in a layer that has them; then MLP is the shared expert, if any
  Tensor output;              // [R,C]: the residual stream behind the layer
};

// Consecutive layers, by their number in the whole model.
class ChunkLayers {
 public:
  ChunkLayers() = default;
  ChunkLayers(const LayerActivations* first, int64_t first_layer)
      : first_(first), first_layer_(static_cast<size_t>(first_layer)) {}
  const LayerActivations& operator[](size_t layer) const { return first_[layer - first_layer_]; }

 private:
  const LayerActivations* first_ = nullptr;
  size_t first_layer_ = 0;
};

// Everything that the pass of a micro-batch through a chunk of layers reads and writes beside weights, gradients and moments.
struct Activations {
  Tensor tokens, targets;  // i32 [M]
  Tensor input;            // [R,C]: the residual stream in front of the first layer
  ChunkLayers layers;
  // [M]: load-balance losses of a micro-batch's tokens in all layers up to the end of the chunk, and up to its beginning where that is
  // not the model's. They go with the residual stream.
  Tensor balance, balance_before;
  Tensor final_norm, final_mean, final_rstd;
  Tensor logits;            // [M,V], or the scratch of the fused loss
  Tensor losses;            // [M]
  Tensor maxima, row_sums;  // of a row's logits over ranks: [tp,M], [2,M], or a chunk of the rows
  Tensor loss_sums;         // one a micro-batch
  Tensor loss, norm_squares, clip;  // scalars of the step
  Tensor norm_gradients;            // of all norms in one piece, where tensor ranks add them up

  // Gradients with respect to activations, each alive within one layer; `residual` goes through all of them.
  Tensor d_residual, d_branch;  // [R,C]; d_branch only with dropout
  Tensor d_norm;                // [R,C]
  Tensor d_activated, d_up;     // [M,F], [M,2F]; for gelu d_up is d_activated
  Tensor d_attention, d_qkv;
  ExpertScratch experts;
  Tensor all_rows, d_all_rows;  // [M,C]: a stream gathered from all ranks, or a part of its sum
  // [M, 2 Hkv * head_width]: what context ranks send around, those at hand and those that arrive; the third is for a part of a sum.
  std::array<Tensor, 2> keys_values;
  std::array<Tensor, 3> d_keys_values;
};

struct ActivationShapes {
  const Model& model;
  LocalSizes sizes;
  int64_t samples, tokens, rows;  // of a micro-batch
  int64_t own_rows;               // of the residual stream
  ExpertShapes experts;
};
ActivationShapes activation_shapes(const Case& planned);

// What a layer keeps in a slot, and what all layers share since it is computed again: with selective recomputation the norms, the
// attention core and the activation function, with full everything but the layer's output. Fields that a layer does not keep are
// those of `recomputed`. Its output is not among them: the last one of a chunk is a stream.
LayerActivations take_layer(Arena& arena, const ActivationShapes& shapes, Recompute recompute,
                            const LayerActivations& recomputed, int64_t layer);
LayerActivations take_recomputed(Arena& arena, const ActivationShapes& shapes, Recompute recompute);
Tensor take_residual(Arena& arena, const ActivationShapes& shapes);
// The residual stream at the end of a chunk, with the losses that go with it right behind it.
Tensor take_stream(Arena& arena, const ActivationShapes& shapes);
int64_t losses_with_stream(const ActivationShapes& shapes);
Tensor take_ids(Arena& arena, const ActivationShapes& shapes);
// Everything that is alive within one pass, and the scalars. A head and its loss come right before their backward pass.
Activations take_shared(Arena& arena, const ActivationShapes& shapes, const Case& planned,
                        const Knobs& knobs, const Stage& stage);

// Rows of logits alive at once, of which this rank has `vocabulary` columns.
int64_t logit_rows(const Case& planned, const Knobs& knobs, int64_t vocabulary);

}  // namespace dettax
