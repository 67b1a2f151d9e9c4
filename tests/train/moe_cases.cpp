#include "moe_cases.h"

namespace dettax::testing_support {

Case expert_case(const Model& model) {
  Case planned = small_case(model);
  planned.batch = {1, 8, 12};
  planned.optimizer.learning_rate = 0.01;
  planned.optimizer.epsilon = 0.01;  // gradients that are rounding alone must not become steps
  return planned;
}

std::vector<Case> expert_cases() {
  Model shared = small_moe();
  shared.name = "shared";
  shared.moe->shared_experts = 1;
  shared.moe->first_layer = 1;
  Model balanced = small_moe();
  balanced.name = "balanced";
  balanced.moe->routing = Routing::balanced;
  Model dropping = small_moe();
  dropping.name = "dropping";
  dropping.moe->capacity_factor = 0.75;
  dropping.moe->normalised = false;
  return {expert_case(small_moe()), expert_case(shared), expert_case(balanced),
          expert_case(dropping)};
}

Case racing_experts(const Layout& layout) {
  Case planned = small_case(small_moe());
  planned.model.context = 256;
  planned.layout = layout;
  planned.batch = {4, 4 * layout.dp, 256};
  return planned;
}

}  // namespace dettax::testing_support
