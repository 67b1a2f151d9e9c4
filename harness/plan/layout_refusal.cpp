#include <fmt/format.h>

#include "harness/plan/suite.h"

namespace dettax {
namespace {

using Reason = std::optional<std::string>;

Reason not_divisible(const char* what, int64_t value, const char* axis, int64_t by) {
  if (by <= 1 || value % by == 0) return std::nullopt;
  return fmt::format("{} {} is not divisible by {} {}", what, value, axis, by);
}

Reason uneven_tensor(const Case& planned) {
  const Model& m = planned.model;
  const int64_t tp = planned.layout.tp;
  for (const Reason& reason :
       {not_divisible("model.heads", m.heads, "tp", tp),
        not_divisible("model.key_value_heads", m.key_value_heads, "tp", tp),
        not_divisible("model.ffn_width", m.ffn_width, "tp", tp),
        not_divisible("model.moe.expert_width", m.moe ? m.moe->expert_width : 0, "tp", tp)}) {
    if (reason) return reason;
  }
  // Padding belongs to the model: padded for a layout it would be another model.
  if (const Reason reason = not_divisible("padded vocabulary", m.padded_vocabulary(), "tp", tp))
    return *reason + ": set model.vocabulary_multiple, for every layout alike";
  if (!planned.layout.sequence_parallel) return std::nullopt;
  if (tp == 1)
    return fmt::format("layout {}: sequence parallelism needs tp > 1", to_string(planned.layout));
  // Each sample's rows here, so that every mode can cut samples.
  return not_divisible("rows of a sample on a rank", planned.local_sequence_length(), "tp", tp);
}

Reason uneven_pipeline(const Case& planned) {
  const Layout& l = planned.layout;
  if (l.schedule == PipelineSchedule::gpipe && l.pp == 1)
    return fmt::format("layout {}: gpipe needs a pipeline; pp is 1", to_string(l));
  const int64_t chunks = int64_t{l.pp} * l.vp;
  if (Reason reason = not_divisible("model.layers", planned.model.layers, "pp * vp", chunks))
    return reason;
  if (l.schedule != PipelineSchedule::interleaved) return std::nullopt;
  return not_divisible("micro-batches", planned.micro_batches(), "pp (interleaved)", l.pp);
}

Reason uneven_experts(const Case& planned) {
  const Layout& l = planned.layout;
  if (l.ep == 1) return std::nullopt;
  if (Reason reason = not_divisible("layout.dp", l.dp, "ep", l.ep)) return reason;
  if (!planned.model.moe)
    return fmt::format("layout {}: model {} has no experts to spread over ep {}", to_string(l),
                       planned.model.name, l.ep);
  return not_divisible("model.moe.experts", planned.model.moe->experts, "ep", l.ep);
}

}  // namespace

std::optional<std::string> layout_refusal(const Case& planned) {
  if (planned.backend == Backend::cuda && planned.layout.ranks() > 1) {
    return fmt::format("layout {} has {} ranks; backend cuda has one yet, without NCCL",
                       to_string(planned.layout), planned.layout.ranks());
  }
  if (Reason reason = uneven_tensor(planned)) return reason;
  if (Reason reason = uneven_pipeline(planned)) return reason;
  // Each rank has two pieces of every sequence, one from each end, so that causal work is even.
  if (planned.layout.cp > 1) {
    if (Reason reason = not_divisible("batch.sequence_length", planned.batch.sequence_length,
                                      "2 * cp", 2 * int64_t{planned.layout.cp}))
      return reason;
  }
  return uneven_experts(planned);
}

}  // namespace dettax
