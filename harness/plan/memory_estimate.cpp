// What a worker process will hold. It mirrors the trainer (harness/train/activations.cpp,
// parameters.cpp) and the CPU operations' scratch memory, which this folder may not include; a test
// of the trainer compares the two.
#include <algorithm>
#include <bit>

#include "harness/plan/suite.h"

namespace dettax {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kMiB = int64_t{1} << 20U;

int64_t padded_parameters(const Model& model) {
  const int64_t padding = model.padded_vocabulary() - model.vocabulary;
  return parameter_count(model) + (model.tied_head ? 1 : 2) * padding * model.width;
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
  const int64_t all = padded_parameters(model);
  if (!wants_tree(mode.knobs)) return all;
  const auto micro_batches = static_cast<uint64_t>(std::max<int64_t>(1, planned.micro_batches()));
  const auto copies = static_cast<int64_t>(std::bit_width(micro_batches));
  const bool apart = model.tied_head && (micro_batches > 1 || planned.layout.dp > 1);
  return copies * (all + (apart ? model.padded_vocabulary() * model.width : 0));
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
  int64_t residual, attention, qkv, ffn, up, norm_statistics;
};

Widths widths_of(const Model& m) {
  const int64_t up = (m.activation == Activation::swiglu ? 2 : 1) * m.ffn_width;
  return {m.width,
          m.heads * m.head_width,
          (m.heads + 2 * m.key_value_heads) * m.head_width,
          m.ffn_width,
          up,
          m.norm == NormKind::layer_norm ? 2 : 1};
}

// Floats a row that one layer keeps for the backward pass: two norms, qkv, attention and its
// log-sum-exp, the residual stream behind attention and behind the layer, both sides of the
// activation.
int64_t layer_floats(const Model& m, const Widths& w) {
  return 2 * (w.residual + w.norm_statistics) + w.qkv + w.attention + m.heads + 2 * w.residual +
         w.up + w.ffn;
}

// Floats a row of the gradients with respect to activations: residual stream (and the branch under
// dropout), norm, MLP, attention.
int64_t activation_gradient_floats(const Model& m, const Widths& w) {
  const int64_t branch = m.dropout > 0 ? w.residual : 0;
  const int64_t gated = m.activation == Activation::swiglu ? w.up : 0;
  return 2 * w.residual + branch + w.ffn + gated + w.attention + w.qkv;
}

int64_t activation_floats(const Case& planned, const Mode& mode) {
  const Model& m = planned.model;
  const Widths w = widths_of(m);
  const int64_t rows = planned.batch.micro * planned.batch.sequence_length;
  const int64_t ids_and_losses = 3;  // tokens, targets, losses
  const int64_t ends = 2 * w.residual + w.norm_statistics + ids_and_losses;
  const int64_t vocabulary = m.padded_vocabulary();
  const int64_t logit_rows =
      mode.knobs.fused_loss ? fused_chunk_rows(rows, vocabulary, mode.knobs.gemm) : rows;
  return rows * (m.layers * layer_floats(m, w) + ends + activation_gradient_floats(m, w)) +
         logit_rows * vocabulary;
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
  const int64_t weights = ranks * padded_parameters(planned.model) * kFloatBytes;
  MemoryEstimate estimate;
  estimate.weights = weights;
  estimate.gradients = ranks * gradient_floats(planned, mode) * kFloatBytes;
  estimate.optimizer = 2 * weights;
  estimate.activations = ranks * activation_floats(planned, mode) * kFloatBytes;
  estimate.workspace = ranks * workspace_bytes(planned, mode);
  estimate.process = kProcessBytes + ranks * kRankBytes;
  return estimate;
}

}  // namespace dettax
