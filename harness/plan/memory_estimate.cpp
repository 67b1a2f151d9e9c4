// What a worker process will hold. It mirrors the trainer (harness/train/activations.cpp,
// parameters.cpp) and the CPU operations' scratch memory, which this folder may not include; a test
// of the trainer compares the two.
#include <algorithm>
#include <bit>

#include "harness/plan/local_sizes.h"
#include "harness/plan/pipeline_schedule.h"
#include "harness/plan/suite.h"

namespace dettax {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kMiB = int64_t{1} << 20U;

int64_t token_table(const Case& planned) {
  return planned.model.padded_vocabulary() / planned.layout.tp * planned.model.width;
}

int64_t expert_layers(const Model& model) {
  return model.moe ? std::max<int64_t>(0, model.layers - model.moe->first_layer) : 0;
}

// Parameters of experts that other ranks of the expert group hold.
int64_t experts_elsewhere(const Case& planned) {
  const ExpertSizes e = expert_sizes(planned);
  return expert_layers(planned.model) * (e.experts - e.held) * planned.model.width *
         (e.up_width + e.width);
}

// Parameters of one rank, on average over the stages of a pipeline, of which the first and the last have a tied table each. What
// tensor parallelism does not cut every rank has whole: norms, the biases behind row-parallel layers, positions.
int64_t held_parameters(const Case& planned) {
  const Model& m = planned.model;
  const int64_t padding = m.padded_vocabulary() - m.vocabulary;
  const int64_t all =
      parameter_count(m) + (m.tied_head ? 1 : 2) * padding * m.width - experts_elsewhere(planned);
  const int64_t vectors = m.bias && m.norm == NormKind::layer_norm ? 2 : 1;
  const int64_t norms = (2 * m.layers + 1) * vectors * m.width;
  const int64_t biases = m.bias ? 2 * m.layers * m.width : 0;
  const int64_t positions = m.position == Position::learned ? m.context * m.width : 0;
  const int64_t whole = norms + biases + positions;
  const int64_t repeated = m.tied_head && planned.layout.pp > 1 ? token_table(planned) : 0;
  return (whole + (all - whole) / planned.layout.tp + repeated) / planned.layout.pp;
}

// Replicas that share optimizer state, and with zero_stage 3 weights too.
int64_t shards(const Case& planned, int from_stage) {
  const Layout& l = planned.layout;
  return l.zero_stage >= from_stage ? int64_t{l.dp} * l.cp : 1;
}

// With sharded weights: this rank's part, tables and final norm gathered, and two places for the
// gathered weights of a layer.
int64_t weight_floats(const Case& planned) {
  const int64_t held = held_parameters(planned);
  const int64_t parts = shards(planned, 3);
  if (parts == 1) return held;
  Case no_layer = planned;
  no_layer.model.layers = 0;
  Case one_layer = planned;
  one_layer.model.layers = 1;
  if (planned.model.moe && expert_layers(planned.model) > 0) one_layer.model.moe->first_layer = 0;
  const int64_t ends = held_parameters(no_layer);
  const int64_t layer = held_parameters(one_layer) - ends;
  // Both counts are averages over the stages, of which each has two whole places.
  return held / parts + ends + 2 * layer * planned.layout.pp;
}

// Of a tree over micro-batches one copy of all gradients in place and one a level.
int64_t gradient_floats(const Case& planned, const Mode& mode) {
  const int64_t all = held_parameters(planned);
  if (!gradients_as_tree(mode.knobs)) return all;
  const auto micro_batches = static_cast<uint64_t>(std::max<int64_t>(1, planned.micro_batches()));
  const auto copies = static_cast<int64_t>(std::bit_width(micro_batches));
  return copies * (all + (tied_uses_apart(planned, mode.knobs) ? token_table(planned) : 0));
}

// fused_loss_chunk_rows of harness/device/ops.h, as the CPU backend defines it.
int64_t fused_chunk_rows(int64_t rows, int64_t vocabulary, Order order) {
  constexpr int64_t kLogitsBytes = 32 * kMiB;
  constexpr int64_t kLeastRows = 256;
  if (order == Order::invariant) return rows;
  const int64_t most = std::max(kLeastRows, kLogitsBytes / (kFloatBytes * vocabulary));
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
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

// Floats a row that the forward pass of a layer makes: two norms, attention with its log-sum-exp and
// the activation function's result, which are cheap to compute again; what products made (qkv, the
// residual stream behind attention, the MLP's inner side); and the residual stream behind the layer.
struct LayerFloats {
  int64_t cheap, products, output;
};
LayerFloats layer_floats(const Widths& w) {
  return {2 * (w.residual + w.norm_statistics) + w.attention + w.heads + w.ffn,
          w.qkv + w.residual + w.up, w.residual};
}

// What of it each layer keeps, and what all layers share.
struct Kept {
  int64_t per_layer, shared;
};
Kept kept_floats(const LayerFloats& f, Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return {f.cheap + f.products + f.output, 0};
    case Recompute::selective:
      return {f.products + f.output, f.cheap};
    case Recompute::full:
      return {f.output, f.cheap + f.products};
  }
  return {};
}

// Floats a row of what context ranks send around: two places for keys and values, up to three for
// their gradients.
int64_t ring_floats(const Case& planned, const Widths& w) {
  const int cp = planned.layout.cp;
  return cp > 1 ? (2 + std::min(cp, 3)) * (w.qkv - w.attention) : 0;
}

// Floats a row of the gradients with respect to activations: residual stream (three on their way
// through a pipeline) and the branch under dropout, norm, MLP, attention; and of what ranks exchange.
int64_t activation_gradient_floats(const Case& planned, const Widths& w) {
  const Model& m = planned.model;
  const int64_t residual = (planned.layout.pp > 1 ? 3 : 1) * w.residual;
  const int64_t branch = m.dropout > 0 ? w.residual : 0;
  const int64_t gated = m.activation == Activation::swiglu ? w.up : 0;
  const int64_t exchanged = planned.layout.sequence_parallel ? 2 * m.width : 0;
  return residual + w.residual + branch + w.ffn + gated + w.attention + w.qkv + exchanged +
         ring_floats(planned, w);
}

int64_t head_floats(const Case& planned, const Mode& mode, const Widths& w) {
  const int64_t rows = planned.batch.micro * planned.local_sequence_length();
  const int64_t tp = planned.layout.tp;
  const int64_t vocabulary = planned.model.padded_vocabulary() / tp;
  const int64_t losses = 1;
  const int64_t logit_rows =
      mode.knobs.fused_loss ? fused_chunk_rows(rows, vocabulary, mode.knobs.gemm) : rows;
  const int64_t row_statistics = tp > 1 ? tp + 2 : 0;
  return rows * (w.residual + w.norm_statistics + losses) +
         logit_rows * (vocabulary + row_statistics);
}

// What the chunks of a stage hold of their micro-batches in flight; what comes from another stage
// needs one place more.
int64_t slot_floats(const Case& planned, const Widths& w, int64_t kept, int stage) {
  const Layout& layout = planned.layout;
  const auto actions = pipeline_schedule(layout, stage, planned.micro_batches());
  const int64_t layers = planned.model.layers / (int64_t{layout.pp} * layout.vp);
  int64_t floats = 0;
  for (int chunk = 0; chunk < layout.vp; ++chunk) {
    const int64_t slots = micro_batches_in_flight(actions, chunk);
    const bool first = chunk == 0 && stage == 0;
    const bool last = chunk == layout.vp - 1 && stage == layout.pp - 1;
    const int64_t ids = (first ? 1 : 0) + (last ? 1 : 0);
    floats += (slots + (first ? 0 : 1)) * w.residual + slots * (layers * kept + ids);
  }
  return floats;
}

// What mixture-of-experts layers keep and share (harness/train/expert_activations.h), less the MLPs that
// they replace.
int64_t expert_floats(const Case& planned, const Widths& w) {
  const int64_t layers = expert_layers(planned.model);
  if (layers == 0) return 0;
  const ExpertSizes e = expert_sizes(planned);
  const int64_t width = planned.model.width;
  const int64_t samples = planned.batch.micro;
  const int64_t rows = samples * planned.batch.sequence_length;
  const int64_t ep = planned.layout.ep;
  const int64_t mlp = w.ffn + w.up;
  const int64_t shared_mlp = e.shared_width + e.shared_up_width;
  const int64_t inner = e.width + e.up_width;
  const int64_t routing = rows * e.experts + 4 * e.sent + e.experts * (2 * samples + 1);
  const int64_t exchange = ep > 1 ? e.held * (ep * samples + 1) + 2 * e.received : 0;
  const int64_t kept = rows * (shared_mlp - mlp) + routing + exchange +
                       e.received * (width + inner) + e.sent * width;
  const bool dense = layers < planned.model.layers;
  const int64_t gradients = dense ? std::max(mlp, shared_mlp) : shared_mlp;
  const int64_t shared = rows * (gradients - mlp + e.experts + 1) + e.sent * (width + 1) +
                         e.received * (inner + (ep > 1 ? 2 : 1) * width);
  return layers * kept + shared;
}

// On average over the stages.
int64_t activation_floats(const Case& planned, const Mode& mode) {
  const Widths w = widths_of(planned);
  const int64_t rows = planned.batch.micro * planned.local_sequence_length();
  const Kept kept = kept_floats(layer_floats(w), planned.layout.recompute);
  int64_t slots = 0;
  for (int stage = 0; stage < planned.layout.pp; ++stage)
    slots += slot_floats(planned, w, kept.per_layer, stage);
  return (rows * slots + head_floats(planned, mode, w)) / planned.layout.pp +
         rows * (kept.shared + activation_gradient_floats(planned, w)) + expert_floats(planned, w);
}

// Rounded copies of the largest operands of a matrix product (harness/train/operands.h), where a precision has them.
int64_t operand_floats(const Case& planned) {
  if (planned.precision == Precision::fp32) return 0;
  const OperandSizes sizes = operand_sizes(planned);
  return sizes.input + sizes.weight + sizes.gradient;
}

// One packed operand of a matrix product at most kPackedBytes, shared, and a small one a thread;
// gathered rows of generic index operations.
int64_t workspace_bytes(const Case& planned, const Mode& mode) {
  constexpr int64_t kPackedBytes = 8 * kMiB;
  constexpr int64_t kThreadBytes = kMiB / 4;
  const Model& m = planned.model;
  const int64_t rows = planned.batch.micro * planned.local_sequence_length();
  const int64_t widest = std::max({m.width, m.ffn_width, m.padded_vocabulary()});
  const int64_t packed = std::min(kPackedBytes, rows * widest * kFloatBytes);
  // Tokens, or rows of experts once gathered and once weighted.
  const int64_t gathered_rows = std::max(rows, 2 * expert_sizes(planned).sent);
  const int64_t gathered = mode.knobs.generic_index_ops ? gathered_rows * m.width * kFloatBytes : 0;
  return packed + planned.topology.threads_per_rank * kThreadBytes + gathered;
}

// What a large buffer takes beyond its size: its last page is a whole one of 2 MiB (harness/device/cpu/memory.cpp).
int64_t page_end(int64_t bytes) {
  constexpr int64_t kHugeFromBytes = 4 * kMiB;
  constexpr int64_t kHugePageBytes = 2 * kMiB;
  return bytes < kHugeFromBytes ? 0 : (kHugePageBytes - bytes % kHugePageBytes) % kHugePageBytes;
}

}  // namespace

MemoryEstimate estimate_memory(const Case& planned, const Mode& mode) {
  // Program and libraries; and a rank's stacks and small buffers. Both measured, on one to eight ranks.
  constexpr int64_t kProcessBytes = 17 * kMiB / 2;
  constexpr int64_t kRankBytes = kMiB / 4;
  const int64_t ranks = planned.topology.ranks_per_node;
  // The large buffers of a rank.
  const int64_t weights = weight_floats(planned) * kFloatBytes;
  const int64_t gradients = gradient_floats(planned, mode) * kFloatBytes;
  const int64_t moment = held_parameters(planned) / shards(planned, 1) * kFloatBytes;  // one of two
  const int64_t activations = activation_floats(planned, mode) * kFloatBytes;
  const int64_t operands = operand_floats(planned) * kFloatBytes;
  const int64_t page_ends = page_end(weights) + page_end(gradients) + 2 * page_end(moment) +
                            page_end(activations) + page_end(operands);
  MemoryEstimate estimate;
  estimate.weights = ranks * weights;
  estimate.gradients = ranks * gradients;
  estimate.optimizer = ranks * 2 * moment;
  estimate.activations = ranks * (activations + operands);
  estimate.workspace = ranks * workspace_bytes(planned, mode);
  estimate.process = kProcessBytes + ranks * (kRankBytes + page_ends);
  return estimate;
}

}  // namespace dettax
