#include "results/analysis/projection/training_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "results/analysis/projection/plan_limits.h"

namespace dettax {
namespace {

using Reason = std::optional<std::string>;

Reason uneven(const char* what, int64_t value, const char* axis, int64_t by) {
  if (by <= 1 || value % by == 0) return std::nullopt;
  return fmt::format("{} {} is not divisible by {} {}", what, value, axis, by);
}

// Before anything is multiplied in whole numbers.
Reason too_large(const TrainingPlan& p) {
  const Layout& l = p.layout;
  const double ranks = double{1} * l.dp * l.tp * l.pp * l.cp;
  if (ranks > static_cast<double>(kMostRanks))
    return fmt::format("dp * tp * pp * cp are {:.0f} GPUs; at most {} are projected", ranks,
                       kMostRanks);
  const auto above = [](const char* what, int64_t value, int64_t most) -> Reason {
    if (value <= most) return std::nullopt;
    return fmt::format("{} {} is too large; at most {} is projected", what, value, most);
  };
  if (Reason reason = above("the micro-batch", p.batch.micro, kMostMicroBatch)) return reason;
  if (Reason reason = above("the global batch", p.batch.global, kMostGlobalBatch)) return reason;
  return above("the sequence length", p.batch.sequence_length, kMostSequence);
}

Reason too_many_passes(const TrainingPlan& p) {
  const int64_t chunks = model_chunks(p);
  const int64_t most = kMostPasses / (2 * chunks);
  if (p.micro_batches() <= most) return std::nullopt;
  return fmt::format(
      "{} micro-batches through {} chunks of layers are {} passes, at most {} are simulated: a "
      "global batch of up to {}",
      p.micro_batches(), chunks, 2 * chunks * p.micro_batches(), kMostPasses,
      most * p.batch.micro * p.layout.dp);
}

Reason uneven_tensor(const TrainingPlan& p) {
  const Model& m = p.model;
  const int64_t tp = p.layout.tp;
  for (const Reason& reason :
       {uneven("heads", m.heads, "tp", tp), uneven("ffn_width", m.ffn_width, "tp", tp),
        uneven("the sequence length", p.batch.sequence_length, "cp * tp",
               p.layout.cp * (p.layout.sequence_parallel ? tp : 1))}) {
    if (reason) return reason;
  }
  if (m.key_value_heads % tp != 0 && tp % m.key_value_heads != 0)
    return uneven("key_value_heads", m.key_value_heads, "tp", tp);
  return std::nullopt;
}

Reason uneven_batch(const TrainingPlan& p) {
  const int64_t once = p.batch.micro * p.layout.dp;
  if (p.batch.global % once == 0) return std::nullopt;
  return fmt::format("the global batch {} is not divisible by micro-batch * dp ({} * {})",
                     p.batch.global, p.batch.micro, p.layout.dp);
}

Reason uneven_experts(const TrainingPlan& p) {
  const Layout& l = p.layout;
  if (l.ep == 1) return std::nullopt;
  if (!p.model.moe) return fmt::format("ep is {}, but model {} has no experts", l.ep, p.model.name);
  if (Reason reason = uneven("experts", p.model.moe->experts, "ep", l.ep)) return reason;
  return uneven("dp * cp * tp", int64_t{l.dp} * l.cp * l.tp, "ep", l.ep);
}

Reason unusable_schedule(const TrainingPlan& p) {
  if (p.layout.vp > 1 && p.layout.pp == 1 && p.schedule == ScheduleKind::interleaved)
    return std::nullopt;  // as if it were one chunk
  if (p.layout.vp > 1 && p.schedule != ScheduleKind::interleaved)
    return fmt::format("schedule {} has no use for vp {}; interleaved has, others need vp 1",
                       to_string(p.schedule), p.layout.vp);
  try {
    make_schedule(schedule_request(p));
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

}  // namespace

double element_bytes(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
}

int64_t model_chunks(const TrainingPlan& plan) {
  switch (plan.schedule) {
    case ScheduleKind::interleaved:
      return int64_t{plan.layout.pp} * (plan.layout.pp == 1 ? 1 : plan.layout.vp);
    case ScheduleKind::zbv:
      return int64_t{plan.layout.pp} * 2;
    default:
      return plan.layout.pp;
  }
}

ScheduleRequest schedule_request(const TrainingPlan& plan) {
  const int chunks =
      plan.schedule == ScheduleKind::interleaved && plan.layout.pp > 1 ? plan.layout.vp : 1;
  return {plan.schedule, plan.layout.pp, chunks, plan.micro_batches()};
}

std::optional<std::string> plan_refusal(const TrainingPlan& p) {
  if (Reason reason = too_large(p)) return reason;
  if (Reason reason = uneven_batch(p)) return reason;
  if (Reason reason = uneven_tensor(p)) return reason;
  if (Reason reason = uneven_experts(p)) return reason;
  if (model_chunks(p) > p.model.layers)
    return fmt::format("{} chunks of layers (pp * vp) are more than the {} layers of {}",
                       model_chunks(p), p.model.layers, p.model.name);
  if (Reason reason = too_many_passes(p)) return reason;
  return unusable_schedule(p);
}

std::vector<int64_t> layers_of_chunks(const TrainingPlan& plan) {
  const int64_t chunks = model_chunks(plan);
  const int64_t layers = plan.model.layers;
  std::vector<int64_t> counts(static_cast<size_t>(chunks), layers / chunks);
  int64_t rest = layers % chunks;
  // From the second chunk on; the ends hold the token tables and come last.
  for (int64_t c = 1; rest > 0; c = (c + 1) % chunks) {
    if (c == chunks - 1 && rest < chunks - 1 && chunks > 2) continue;
    ++counts[static_cast<size_t>(chunks == 1 ? 0 : c)];
    --rest;
  }
  return counts;
}

bool is_moe_layer(const Model& model, int64_t layer) {
  return model.moe && layer >= model.moe->first_layer;
}

double dense_layer_parameters(const Model& m, bool moe_layer) {
  const auto width = static_cast<double>(m.width);
  double attention = 0;
  if (m.latent_attention) {
    const LatentAttention& a = *m.latent_attention;
    const auto heads = static_cast<double>(m.heads);
    const auto query = static_cast<double>(a.query_rank);
    const auto key_value = static_cast<double>(a.key_value_rank);
    const auto head = static_cast<double>(a.nope_head_width + a.rope_head_width);
    attention = width * query + query * heads * head +
                width * (key_value + static_cast<double>(a.rope_head_width)) +
                key_value * heads * static_cast<double>(a.nope_head_width + a.value_head_width) +
                heads * static_cast<double>(a.value_head_width) * width;
  } else {
    const auto head = static_cast<double>(m.head_width);
    attention = width * head * static_cast<double>(2 * m.heads + 2 * m.key_value_heads);
  }
  const double matrices = m.activation == Activation::swiglu ? 3 : 2;
  if (!moe_layer) return attention + matrices * width * static_cast<double>(m.ffn_width);
  const auto shared = static_cast<double>(m.moe->shared_experts * m.moe->expert_width);
  return attention + matrices * width * shared + width * static_cast<double>(m.moe->experts);
}

double expert_layer_parameters(const Model& m) {
  if (!m.moe) return 0;
  const double matrices = m.activation == Activation::swiglu ? 3 : 2;
  return matrices * static_cast<double>(m.width * m.moe->expert_width * m.moe->experts);
}

double token_table_parameters(const Model& m) {
  return static_cast<double>(m.padded_vocabulary() * m.width);
}

}  // namespace dettax
