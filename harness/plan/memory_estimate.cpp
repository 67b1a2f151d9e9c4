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

bool claims_invariant_sums(const Mode& mode) { return mode.knobs.gemm == Order::invariant; }

// Under Order::invariant micro-batches are added by a tree, whose open levels are gradients of the
// whole model; and the two uses of a tied table keep theirs apart until the end.
int64_t gradient_floats(const Case& planned, const Mode& mode) {
  const Model& model = planned.model;
  const int64_t all = padded_parameters(model);
  if (!claims_invariant_sums(mode)) return all;
  const auto micro_batches = static_cast<uint64_t>(std::max<int64_t>(1, planned.micro_batches()));
  const auto levels = static_cast<int64_t>(std::bit_width(micro_batches)) - 1;
  const int64_t copies = std::max<int64_t>(1, levels);
  return copies * (all + (model.tied_head ? model.padded_vocabulary() * model.width : 0));
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

// Packed operands of matrix products, a fixed block a thread; gathered rows of generic index
// operations. Measured on the shipped models.
int64_t workspace_bytes(const Case& planned, const Mode& mode) {
  constexpr int64_t kPackedBytesPerThread = 4 * kMiB;
  const int64_t rows = planned.batch.micro * planned.batch.sequence_length;
  const int64_t gathered =
      mode.knobs.generic_index_ops ? rows * planned.model.width * kFloatBytes : 0;
  return planned.topology.threads_per_rank * kPackedBytesPerThread + gathered;
}

}  // namespace

MemoryEstimate estimate_memory(const Case& planned, const Mode& mode) {
  constexpr int64_t kProcessBytes = 16 * kMiB;  // program, libraries, stacks
  const int64_t ranks = planned.topology.ranks_per_node;
  const int64_t weights = ranks * padded_parameters(planned.model) * kFloatBytes;
  MemoryEstimate estimate;
  estimate.weights = weights;
  estimate.gradients = ranks * gradient_floats(planned, mode) * kFloatBytes;
  estimate.optimizer = 2 * weights;
  estimate.activations = ranks * activation_floats(planned, mode) * kFloatBytes;
  estimate.workspace = ranks * workspace_bytes(planned, mode);
  estimate.process = kProcessBytes;
  return estimate;
}

}  // namespace dettax
