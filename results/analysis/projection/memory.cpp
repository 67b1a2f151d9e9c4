#include "results/analysis/projection/memory.h"

#include <algorithm>

#include "results/analysis/projection/data_parallel.h"

namespace dettax {
namespace {

constexpr double kHalf = 2;  // bytes of an activation

double attention_columns(const Model& m) {
  if (!m.latent_attention)
    return static_cast<double>((m.heads + 2 * m.key_value_heads) * m.head_width);
  const LatentAttention& a = *m.latent_attention;
  return static_cast<double>(
      m.heads * (2 * (a.nope_head_width + a.rope_head_width) + a.value_head_width) + a.query_rank +
      a.key_value_rank);
}

// Elements a token of what the MLP keeps: its wide inner sides; its input is counted with the residual stream.
double inner_columns(const Model& m, double ffn) {
  return m.activation == Activation::swiglu ? 3 * ffn : 2 * ffn;
}

double attention_matrix_bytes(const TrainingPlan& p) {
  if (p.software.attention == AttentionKind::flash) return 0;
  const auto length = static_cast<double>(p.batch.sequence_length);
  const double heads = static_cast<double>(p.model.heads) / p.layout.tp;
  // Softmax's output, dropout's mask and output.
  return 5 * heads * static_cast<double>(p.batch.micro) * length * length;
}

}  // namespace

double layer_activation_bytes(const TrainingPlan& p, bool moe_layer) {
  const Model& m = p.model;
  const double tp = p.layout.tp;
  const double cut = p.layout.sequence_parallel ? tp : 1;
  const double tokens = p.tokens();
  const auto width = static_cast<double>(m.width);
  const double input = kHalf * tokens * width / cut;
  if (p.layout.recompute == Recompute::full) return input;
  // Inputs of two norms and two linear layers, and a byte each for two dropout masks where there is dropout.
  const bool dropout = p.software.attention == AttentionKind::materialised;
  double bytes = tokens * width / cut * (dropout ? 10 : 8);
  const double head_columns = static_cast<double>(m.heads * m.head_width);
  bytes += kHalf * tokens * (attention_columns(m) + head_columns) / tp;
  if (p.layout.recompute == Recompute::none) bytes += attention_matrix_bytes(p);
  if (!moe_layer)
    return bytes + kHalf * tokens * inner_columns(m, static_cast<double>(m.ffn_width)) / tp;
  const Moe& moe = *m.moe;
  const auto copies = static_cast<double>(moe.top_k);
  const auto expert = static_cast<double>(moe.expert_width);
  const double shared = static_cast<double>(moe.shared_experts) * expert;
  bytes += kHalf * tokens / cut * copies * (2 * width + inner_columns(m, expert));
  return bytes + kHalf * tokens * inner_columns(m, shared) / tp;
}

ProjectedMemory projected_memory(const TrainingPlan& p) {
  const Layout& l = p.layout;
  const double held = parameters_per_rank(p);
  const double copies = static_cast<double>(l.dp) * l.cp;
  const double shard =
      p.software.shard_ranks > 0 ? static_cast<double>(p.software.shard_ranks) : copies;
  ProjectedMemory memory;
  memory.weights = held * element_bytes(p.precision) / (l.zero_stage == 3 ? shard : 1);
  memory.gradients = held * p.software.gradient_bytes / (l.zero_stage >= 2 ? shard : 1);
  // Two moments, and a copy in 32 bits of what is narrower.
  memory.optimizer =
      held * (element_bytes(p.precision) == 4 ? 8 : 12) / (l.zero_stage >= 1 ? shard : 1);
  const Schedule schedule = make_schedule(schedule_request(p));
  const double layers = static_cast<double>(p.model.layers) / static_cast<double>(model_chunks(p));
  const bool moe = p.model.moe.has_value();
  int64_t chunks_alive = 0;
  for (int stage = 0; stage < schedule.stages; ++stage)
    chunks_alive = std::max(chunks_alive, peak_in_flight(schedule, stage));
  memory.activations = static_cast<double>(chunks_alive) * layers * layer_activation_bytes(p, moe) *
                       element_bytes(p.precision) / 2;
  // A layer's own activations while it is computed again, and the logits with their gradient on the last stage.
  if (l.recompute == Recompute::full) {
    TrainingPlan once = p;
    once.layout.recompute = Recompute::none;
    memory.workspace += layer_activation_bytes(once, moe);
  }
  const double logits = p.tokens() * static_cast<double>(p.model.padded_vocabulary()) / l.tp;
  memory.workspace += logits * (p.software.fused_loss ? 4 : 8);
  constexpr double kLibraries = 4e9;  // context, NCCL's and cuBLAS's buffers, fragmentation
  memory.workspace += kLibraries;
  return memory;
}

}  // namespace dettax
