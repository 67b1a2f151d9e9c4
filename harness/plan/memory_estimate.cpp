// What a worker process will hold. It mirrors the trainer (harness/train/activations.cpp,
// parameters.cpp) and the CPU operations' scratch memory, which this folder may not include; a test
// of the trainer compares the two.
#include <algorithm>
#include <bit>

#include "harness/plan/activation_memory.h"
#include "harness/plan/local_sizes.h"
#include "harness/plan/suite.h"

namespace dettax {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kMiB = int64_t{1} << 20U;

constexpr int64_t kSavedTensors = 3;  // of each parameter: itself and two moments

int64_t token_table(const Case& planned) {
  return planned.model.padded_vocabulary() / planned.layout.tp * planned.model.width;
}

// Parameters of one rank. Experts are held, and sharded, by other ranks than the rest.
struct Held {
  int64_t dense = 0, experts = 0;
  int64_t all() const { return dense + experts; }
};

// On average over the stages of a pipeline, of which the first and the last have a tied table each. What tensor parallelism does not
// cut every rank has whole: norms, the biases behind row-parallel layers, positions, routers.
Held held_parameters(const Case& planned) {
  const Model& m = planned.model;
  const Layout& l = planned.layout;
  const int64_t sparse = expert_layers(m);
  const ExpertSizes e = expert_sizes(planned);
  const int64_t an_expert = m.width * (e.up_width + e.width);  // its part on a tensor rank
  const int64_t experts = sparse * e.experts * an_expert * l.tp;
  const int64_t padding = m.padded_vocabulary() - m.vocabulary;
  const int64_t dense = parameter_count(m) + (m.tied_head ? 1 : 2) * padding * m.width - experts;
  const int64_t vectors = m.bias && m.norm == NormKind::layer_norm ? 2 : 1;
  const int64_t norms = (2 * m.layers + 1) * vectors * m.width;
  const int64_t biases = m.bias ? 2 * m.layers * m.width : 0;
  const int64_t positions = m.position == Position::learned ? m.context * m.width : 0;
  const int64_t routers = sparse * e.experts * m.width;
  const int64_t whole = norms + biases + positions + routers;
  const int64_t repeated = m.tied_head && l.pp > 1 ? token_table(planned) : 0;
  return {(whole + (dense - whole) / l.tp + repeated) / l.pp, sparse * e.held * an_expert / l.pp};
}

// Replicas that share optimizer state, and with zero_stage 3 weights too; of experts, those that hold the same.
Held shards(const Case& planned, int from_stage) {
  const Layout& l = planned.layout;
  if (l.zero_stage < from_stage) return {1, 1};
  const int64_t replicas = int64_t{l.dp} * l.cp;
  return {replicas, replicas / l.ep};
}

int64_t part_held(const Case& planned, int from_stage) {
  const Held held = held_parameters(planned);
  const Held parts = shards(planned, from_stage);
  return held.dense / parts.dense + held.experts / parts.experts;
}

// What is gathered of the weights of the largest layer.
int64_t gathered_layer(const Case& planned, const Held& ends) {
  int64_t largest = 0;
  const int64_t sparse_layers = expert_layers(planned.model);
  for (const bool sparse : {false, true}) {
    if ((sparse ? sparse_layers : planned.model.layers - sparse_layers) == 0) continue;
    Case one_layer = planned;
    one_layer.model.layers = 1;
    if (planned.model.moe) one_layer.model.moe->first_layer = sparse ? 0 : 1;
    const Held held = held_parameters(one_layer);
    const int64_t experts = shards(planned, 3).experts > 1 ? held.experts : 0;
    largest = std::max(largest, held.dense - ends.dense + experts);
  }
  return largest;
}

// With sharded weights: this rank's part, tables and final norm gathered, and two places for the
// gathered weights of a layer.
int64_t weight_floats(const Case& planned) {
  if (shards(planned, 3).dense == 1) return held_parameters(planned).all();
  Case no_layer = planned;
  no_layer.model.layers = 0;
  const Held ends = held_parameters(no_layer);
  // These counts are averages over the stages, of which each has two whole places.
  return part_held(planned, 3) + ends.dense + 2 * gathered_layer(planned, ends) * planned.layout.pp;
}

// Of a tree over micro-batches one copy of all gradients in place and one a level.
int64_t gradient_floats(const Case& planned, const Mode& mode) {
  const int64_t all = held_parameters(planned).all();
  if (!gradients_as_tree(mode.knobs)) return all;
  const auto micro_batches = static_cast<uint64_t>(std::max<int64_t>(1, planned.micro_batches()));
  const auto copies = static_cast<int64_t>(std::bit_width(micro_batches));
  return copies * (all + (tied_uses_apart(planned, mode.knobs) ? token_table(planned) : 0));
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

int64_t checkpoint_bytes(const Case& planned) {
  return kSavedTensors * kFloatBytes * parameter_count(planned.model);
}

MemoryEstimate estimate_memory(const Case& planned, const Mode& mode) {
  // Program and libraries; and a rank's stacks and small buffers. Both measured, on one to eight ranks.
  constexpr int64_t kProcessBytes = 17 * kMiB / 2;
  constexpr int64_t kRankBytes = kMiB / 4;
  const int64_t ranks = planned.topology.ranks_per_node;
  // The large buffers of a rank.
  const int64_t weights = weight_floats(planned) * kFloatBytes;
  const int64_t gradients = gradient_floats(planned, mode) * kFloatBytes;
  const int64_t moment = part_held(planned, 1) * kFloatBytes;  // one of two
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
