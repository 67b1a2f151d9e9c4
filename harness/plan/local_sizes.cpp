#include "harness/plan/local_sizes.h"

#include <algorithm>
#include <initializer_list>

namespace dettax {

LocalSizes local_sizes(const Model& model, int tp, int tp_index) {
  LocalSizes sizes;
  sizes.heads = model.heads / tp;
  sizes.key_value_heads = model.key_value_heads / tp;
  sizes.attention_width = sizes.heads * model.head_width;
  sizes.qkv_width = sizes.attention_width + 2 * sizes.key_value_heads * model.head_width;
  sizes.ffn_width = model.ffn_width / tp;
  sizes.up_width = (model.activation == Activation::swiglu ? 2 : 1) * sizes.ffn_width;
  sizes.vocabulary = model.padded_vocabulary() / tp;
  sizes.first_token = tp_index * sizes.vocabulary;
  sizes.real_vocabulary =
      std::clamp<int64_t>(model.vocabulary - sizes.first_token, 0, sizes.vocabulary);
  return sizes;
}

bool gradients_as_tree(const Knobs& knobs) {
  return std::ranges::any_of(
      std::initializer_list<Order>{knobs.gemm, knobs.attention, knobs.embedding, knobs.norm},
      [](Order order) { return order == Order::invariant; });
}

bool tied_uses_apart(const Case& planned, const Knobs& knobs) {
  const Layout& layout = planned.layout;
  const bool several = planned.micro_batches() > 1 || layout.dp * layout.cp > 1;
  return gradients_as_tree(knobs) && planned.model.tied_head && layout.pp == 1 && several;
}

OperandSizes operand_sizes(const Case& planned) {
  const LocalSizes s = local_sizes(planned.model, planned.layout.tp, 0);
  const int64_t rows = planned.batch.micro * planned.local_sequence_length();
  const int64_t width = planned.model.width;
  OperandSizes sizes;
  sizes.input = rows * std::max({width, s.attention_width, s.ffn_width});
  sizes.weight = width * std::max({s.qkv_width, s.up_width, s.vocabulary});
  sizes.gradient = rows * std::max({width, s.qkv_width, s.up_width});
  return sizes;
}

}  // namespace dettax
