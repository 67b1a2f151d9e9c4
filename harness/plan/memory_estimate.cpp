// What a worker process will hold. It mirrors the trainer (harness/train/activations.cpp,
// parameters.cpp) and the CPU operations' scratch memory, which this folder may not include; a test
// of the trainer compares the two.
#include <algorithm>
#include <bit>

#include "harness/plan/local_sizes.h"
#include "harness/plan/suite.h"

namespace dettax {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kMiB = int64_t{1} << 20U;

// Parameters of one rank. What tensor parallelism does not cut every rank has whole: norms, the
// biases behind row-parallel layers, positions.
int64_t held_parameters(const Case& planned) {
  const Model& m = planned.model;
  const int64_t padding = m.padded_vocabulary() - m.vocabulary;
  const int64_t all = parameter_count(m) + (m.tied_head ? 1 : 2) * padding * m.width;
  const int64_t vectors = m.bias && m.norm == NormKind::layer_norm ? 2 : 1;
  const int64_t norms = (2 * m.layers + 1) * vectors * m.width;
  const int64_t biases = m.bias ? 2 * m.layers * m.width : 0;
  const int64_t positions = m.position == Position::learned ? m.context * m.width : 0;
  const int64_t whole = norms + biases + positions;
  return whole + (all - whole) / planned.layout.tp;
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
  Case one_layer = planned;
  one_layer.model.layers = 1;
  Case two_layers = planned;
  two_layers.model.layers = 2;
  const int64_t layer = held_parameters(two_layers) - held_parameters(one_layer);
  return held / parts + held - planned.model.layers * layer + 2 * layer;
}

// Where a gradient knob is invariant, micro-batches are added by a tree: one copy of all gradients in
// place and one a level. With several micro-batches or ranks the two uses of a tied table keep theirs
// apart until the end.
bool wants_tree(const Knobs& knobs) {
  return knobs.gemm == Order::invariant || knobs.attention == Order::invariant ||
         knobs.embedding == Order::invariant || knobs.norm == Order::invariant;
}

int64_t gradient_floats(const Case& planned, const Mode& mode) {
  const Model& model = planned.model;
  const int64_t all = held_parameters(planned);
  if (!wants_tree(mode.knobs)) return all;
  const auto micro_batches = static_cast<uint64_t>(std::max<int64_t>(1, planned.micro_batches()));
  const auto copies = static_cast<int64_t>(std::bit_width(micro_batches));
  const bool apart = model.tied_head && (micro_batches > 1 || planned.layout.dp > 1);
  return copies * (all + (apart ? model.padded_vocabulary() / planned.layout.tp * model.width : 0));
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

// Floats a row that one layer keeps for the backward pass: two norms, qkv, attention and its
// log-sum-exp, the residual stream behind attention and behind the layer, both sides of the
// activation.
int64_t layer_floats(const Widths& w) {
  return 2 * (w.residual + w.norm_statistics) + w.qkv + w.attention + w.heads + 2 * w.residual +
         w.up + w.ffn;
}

// Floats a row of the gradients with respect to activations: residual stream (and the branch under
// dropout), norm, MLP, attention; and of what ranks exchange.
int64_t activation_gradient_floats(const Case& planned, const Widths& w) {
  const Model& m = planned.model;
  const int64_t branch = m.dropout > 0 ? w.residual : 0;
  const int64_t gated = m.activation == Activation::swiglu ? w.up : 0;
  const int64_t exchanged = planned.layout.sequence_parallel ? 2 * m.width : 0;
  return 2 * w.residual + branch + w.ffn + gated + w.attention + w.qkv + exchanged;
}

int64_t activation_floats(const Case& planned, const Mode& mode) {
  const Model& m = planned.model;
  const Widths w = widths_of(planned);
  const int64_t rows = planned.batch.micro * planned.batch.sequence_length;
  const int64_t ids_and_losses = 3;  // tokens, targets, losses
  const int64_t ends = 2 * w.residual + w.norm_statistics + ids_and_losses;
  const int64_t tp = planned.layout.tp;
  const int64_t vocabulary = m.padded_vocabulary() / tp;
  const int64_t logit_rows =
      mode.knobs.fused_loss ? fused_chunk_rows(rows, vocabulary, mode.knobs.gemm) : rows;
  const int64_t row_statistics = tp > 1 ? tp + 2 : 0;
  return rows * (m.layers * layer_floats(w) + ends + activation_gradient_floats(planned, w)) +
         logit_rows * (vocabulary + row_statistics);
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
  const int64_t rows = planned.batch.micro * planned.batch.sequence_length;
  const int64_t widest = std::max({m.width, m.ffn_width, m.padded_vocabulary()});
  const int64_t packed = std::min(kPackedBytes, rows * widest * kFloatBytes);
  const int64_t gathered = mode.knobs.generic_index_ops ? rows * m.width * kFloatBytes : 0;
  return packed + planned.topology.threads_per_rank * kThreadBytes + gathered;
}

}  // namespace

MemoryEstimate estimate_memory(const Case& planned, const Mode& mode) {
  // Program and libraries; and a rank's stacks and the unused ends of its pages. Both measured.
  constexpr int64_t kProcessBytes = 5 * kMiB;
  constexpr int64_t kRankBytes = 2 * kMiB;
  const int64_t ranks = planned.topology.ranks_per_node;
  MemoryEstimate estimate;
  estimate.weights = ranks * weight_floats(planned) * kFloatBytes;
  estimate.gradients = ranks * gradient_floats(planned, mode) * kFloatBytes;
  estimate.optimizer = 2 * ranks * (held_parameters(planned) / shards(planned, 1)) * kFloatBytes;
  estimate.activations =
      ranks * (activation_floats(planned, mode) + operand_floats(planned)) * kFloatBytes;
  estimate.workspace = ranks * workspace_bytes(planned, mode);
  estimate.process = kProcessBytes + ranks * kRankBytes;
  return estimate;
}

}  // namespace dettax
