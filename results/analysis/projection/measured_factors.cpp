#include "results/analysis/projection/measured_factors.h"

#include "results/analysis/projection/op_cost.h"

namespace dettax {

void use_measured_factors(DeterminismCost& cost, const OpTable& table, const Mode& mode,
                          const Mode& fast, const Model& model, Precision precision,
                          const std::string& only) {
  const auto turned = [&](Knob knob) {
    return (only.empty() || only == knob_name(knob)) &&
           knob_value(mode.knobs, knob) != knob_value(fast.knobs, knob);
  };
  const auto replace = [&](double& factor, const char* op, std::string_view variant) {
    if (const auto ratio = table.ratio(op, to_string(precision), variant, "fast")) factor = *ratio;
  };
  if (turned(Knob::embedding))
    replace(cost.embedding_backward_ratio, "embedding_backward",
            order_word(order_of(mode.knobs, Knob::embedding)));
  if (turned(Knob::norm)) {
    const bool rms = model.norm == NormKind::rms_norm;
    replace(cost.norm_backward_ratio, rms ? "rms_norm_backward" : "layer_norm_backward",
            order_word(order_of(mode.knobs, Knob::norm)));
  }
  if (turned(Knob::moe))
    replace(cost.permute_ratio, "expert_unpermute", order_word(order_of(mode.knobs, Knob::moe)));
  if (turned(Knob::gemm))
    replace(cost.expert_weight_product_ratio, "expert_linear_backward_weight",
            order_word(order_of(mode.knobs, Knob::gemm)));
  if (!turned(Knob::index_ops)) return;
  replace(cost.embedding_backward_ratio, "embedding_backward", "generic");
  replace(cost.permute_ratio, "expert_unpermute", "generic");
}

}  // namespace dettax
