// Mirrors harness/train/activations.cpp, expert_activations.cpp and stage_activations.cpp, which this folder may not include; a test of
// the trainer compares the two.
#include "harness/plan/activation_memory.h"

#include <algorithm>

#include "harness/plan/local_sizes.h"
#include "harness/plan/pipeline_schedule.h"

namespace dettax {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kMiB = int64_t{1} << 20U;

// fused_loss_chunk_rows of harness/device/ops.h, as the CPU backend defines it.
int64_t fused_chunk_rows(int64_t rows, int64_t vocabulary, Order order) {
  constexpr int64_t kLogitsBytes = 32 * kMiB;
  constexpr int64_t kLeastRows = 256;
  if (order == Order::invariant) return rows;
  const int64_t most = std::max(kLeastRows, kLogitsBytes / (kFloatBytes * vocabulary));
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

int64_t rows_of(const Case& planned) {
  return planned.batch.micro * planned.local_sequence_length();
}

struct Widths {
  int64_t residual, attention, qkv, ffn, up, heads, norm_statistics;
};

// Of one rank; the residual stream and what belongs to it count for the rows that the rank has of it.
Widths widths_of(const Case& planned) {
  const Model& m = planned.model;
  const LocalSizes s = local_sizes(m, planned.layout.tp, 0);
  const int64_t cut = planned.layout.sequence_parallel ? planned.layout.tp : 1;
  return {m.width / cut,
          s.attention_width,
          s.qkv_width,
          s.ffn_width,
          s.up_width,
          s.heads,
          (m.norm == NormKind::layer_norm ? 2 : 1)};
}

// The MLP of a layer with experts is the shared one.
Widths sparse_widths(const Case& planned) {
  const ExpertSizes e = expert_sizes(planned);
  Widths w = widths_of(planned);
  w.ffn = e.shared_width;
  w.up = e.shared_up_width;
  return w;
}

// The widest of all layers.
Widths widest(const Case& planned) {
  const int64_t sparse = expert_layers(planned.model);
  if (sparse == 0) return widths_of(planned);
  Widths w = sparse_widths(planned);
  if (sparse == planned.model.layers) return w;
  const Widths dense = widths_of(planned);
  w.ffn = std::max(w.ffn, dense.ffn);
  w.up = std::max(w.up, dense.up);
  return w;
}

// What the forward pass of a layer makes: what is cheap to compute again (two norms, attention with its log-sum-exp, the activation
// function's result); what products made (qkv, the residual stream behind attention, the MLP's inner side) or ranks exchanged; and
// what is never computed again: the residual stream behind the layer and which experts were chosen.
struct LayerFloats {
  int64_t cheap = 0, products = 0, lasting = 0;
};
LayerFloats dense_layer(const Case& planned, const Widths& w) {
  const int64_t rows = rows_of(planned);
  return {rows * (2 * (w.residual + w.norm_statistics) + w.attention + w.heads + w.ffn),
          rows * (w.qkv + w.residual + w.up), rows * w.residual};
}

LayerFloats experts_of_layer(const Case& planned) {
  if (expert_layers(planned.model) == 0) return {};
  const ExpertSizes e = expert_sizes(planned);
  const int64_t samples = planned.batch.micro;
  const int64_t ep = planned.layout.ep;
  const int64_t routing = rows_of(planned) * e.experts + 4 * e.sent + e.experts * (2 * samples + 1);
  const int64_t exchange = ep > 1 ? e.held * (ep * samples + 1) + 2 * e.received : 0;
  return {e.received * e.width,
          e.received * (planned.model.width + e.up_width) + e.sent * planned.model.width,
          routing + exchange};
}

LayerFloats sum(const LayerFloats& a, const LayerFloats& b) {
  return {a.cheap + b.cheap, a.products + b.products, a.lasting + b.lasting};
}

// What of it each layer keeps; all layers share the rest.
int64_t kept(const LayerFloats& f, Recompute recompute) {
  return f.lasting + (recompute == Recompute::full ? 0 : f.products) +
         (recompute == Recompute::none ? f.cheap : 0);
}
int64_t shared(const LayerFloats& f, Recompute recompute) {
  return f.cheap + f.products + f.lasting - kept(f, recompute);
}

// Floats a row of what context ranks send around: two places for keys and values, up to three for
// their gradients.
int64_t ring_floats(const Case& planned, const Widths& w) {
  const int cp = planned.layout.cp;
  return cp > 1 ? (2 + std::min(cp, 3)) * (w.qkv - w.attention) : 0;
}

// Floats a row of the gradients with respect to activations: residual stream (three on their way
// through a pipeline) and the branch under dropout, norm, MLP, attention; and of what ranks exchange.
int64_t activation_gradient_floats(const Case& planned) {
  const Model& m = planned.model;
  const Widths w = widest(planned);
  const int64_t residual = (planned.layout.pp > 1 ? 3 : 1) * w.residual;
  const int64_t branch = m.dropout > 0 ? w.residual : 0;
  const int64_t gated = m.activation == Activation::swiglu ? w.up : 0;
  const int64_t exchanged = planned.layout.sequence_parallel ? 2 * m.width : 0;
  return residual + w.residual + branch + w.ffn + gated + w.attention + w.qkv + exchanged +
         ring_floats(planned, w);
}

int64_t expert_scratch(const Case& planned) {
  if (!planned.model.moe) return 0;
  const ExpertSizes e = expert_sizes(planned);
  const int64_t width = planned.model.width;
  const int64_t exchanged = planned.layout.ep > 1 ? 2 : 1;
  const int64_t sums = planned.layout.tp > 1 ? rows_of(planned) * widths_of(planned).residual : 0;
  const int64_t counts = planned.layout.cp > 1 ? 2 * planned.batch.micro * e.experts : 0;
  return rows_of(planned) * e.experts + e.sent * (width + 1) + sums + counts +
         e.received * (e.width + e.up_width + exchanged * width);
}

int64_t head_floats(const Case& planned, const Mode& mode, const Widths& w) {
  const int64_t rows = rows_of(planned);
  const int64_t tp = planned.layout.tp;
  const int64_t vocabulary = planned.model.padded_vocabulary() / tp;
  const int64_t losses = 1;
  const int64_t logit_rows =
      mode.knobs.fused_loss ? fused_chunk_rows(rows, vocabulary, mode.knobs.gemm) : rows;
  const int64_t row_statistics = tp > 1 ? tp + 2 : 0;
  return rows * (w.residual + w.norm_statistics + losses) +
         logit_rows * (vocabulary + row_statistics);
}

// What a layer, dense or with experts, keeps of a micro-batch.
struct Kept {
  int64_t dense, sparse;
};

// What the chunks of a stage hold of their micro-batches in flight; what comes from another stage
// needs one place more.
int64_t slot_floats(const Case& planned, const Kept& layer, int stage) {
  const Layout& layout = planned.layout;
  const Model& m = planned.model;
  const auto actions = pipeline_schedule(layout, stage, planned.micro_batches());
  const int64_t rows = rows_of(planned);
  const int64_t residual = rows * widths_of(planned).residual;
  const int64_t losses = m.moe && m.moe->balance_weight > 0 ? rows : 0;
  const int64_t layers = m.layers / (int64_t{layout.pp} * layout.vp);
  int64_t floats = 0;
  for (int chunk = 0; chunk < layout.vp; ++chunk) {
    const int64_t slots = micro_batches_in_flight(actions, chunk);
    const int64_t begin = (int64_t{chunk} * layout.pp + stage) * layers;
    const bool first = begin == 0;
    const bool last = begin + layers == m.layers;
    const int64_t ids = rows * ((first ? 1 : 0) + (last ? 1 : 0));
    floats += first ? slots * residual : (slots + 1) * (residual + losses);
    floats += slots * (losses + ids);
    for (int64_t i = begin; i < begin + layers; ++i)
      floats += slots * (has_experts(m, i) ? layer.sparse : layer.dense);
  }
  return floats;
}

}  // namespace

int64_t activation_floats(const Case& planned, const Mode& mode) {
  const int64_t rows = rows_of(planned);
  const Recompute recompute = planned.layout.recompute;
  const LayerFloats experts = experts_of_layer(planned);
  const Kept layer{kept(dense_layer(planned, widths_of(planned)), recompute),
                   kept(sum(dense_layer(planned, sparse_widths(planned)), experts), recompute)};
  const int64_t all_layers = shared(sum(dense_layer(planned, widest(planned)), experts), recompute);
  int64_t stages = head_floats(planned, mode, widths_of(planned));
  for (int stage = 0; stage < planned.layout.pp; ++stage)
    stages += slot_floats(planned, layer, stage);
  return stages / planned.layout.pp + all_layers + rows * activation_gradient_floats(planned) +
         expert_scratch(planned);
}

}  // namespace dettax
