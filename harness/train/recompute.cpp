#include "harness/train/recompute.h"

#include "harness/train/layer.h"
#include "harness/train/moe_layer.h"

namespace dettax {

void recompute_layer(StepContext& c, const Tensor& x) {
  const Recompute kind = c.mesh.layout().recompute;
  if (kind == Recompute::none) return;
  c.phase = Phase::recompute;
  if (kind == Recompute::full) {
    layer_up_to_activation(c, x);
    if (has_experts(c)) experts_rows_again(c);
  } else {
    layer_cheap_parts(c, x);
    if (has_experts(c)) experts_activation_again(c);
  }
  c.phase = Phase::backward;
}

}  // namespace dettax
