#include "harness/plan/local_sizes.h"

#include <algorithm>
#include <cmath>
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

ExpertSizes expert_sizes(const Case& planned) {
  ExpertSizes sizes;
  if (!planned.model.moe) return sizes;
  const Moe& moe = *planned.model.moe;
  const int64_t gate = planned.model.activation == Activation::swiglu ? 2 : 1;
  const int64_t ep = planned.layout.ep;
  sizes.experts = moe.experts;
  sizes.held = moe.experts / ep;
  sizes.choices = moe.top_k;
  sizes.width = moe.expert_width / planned.layout.tp;
  sizes.up_width = gate * sizes.width;
  sizes.shared_width = moe.shared_experts * sizes.width;
  sizes.shared_up_width = gate * sizes.shared_width;
  const int64_t tokens = planned.local_sequence_length();
  const int64_t choices = tokens * moe.top_k;  // of a sample
  const double even = static_cast<double>(planned.batch.sequence_length * moe.top_k) /
                      static_cast<double>(moe.experts);
  if (moe.capacity_factor > 0)
    sizes.capacity = std::max<int64_t>(1, std::llround(std::ceil(moe.capacity_factor * even)));
  sizes.sent = planned.batch.micro * choices;
  // A token goes to an expert once.
  int64_t of_a_sample = std::min(choices, tokens * std::min(moe.top_k, sizes.held));
  if (moe.routing == Routing::balanced) {
    const int64_t pieces = planned.layout.cp > 1 ? 2 : 1;
    const int64_t of_a_piece = (choices / pieces + moe.experts - 1) / moe.experts;
    of_a_sample = std::min(of_a_sample, pieces * sizes.held * of_a_piece);
  }
  if (sizes.capacity > 0) of_a_sample = std::min(of_a_sample, sizes.held * sizes.capacity);
  sizes.received = ep == 1 ? sizes.sent : ep * planned.batch.micro * of_a_sample;
  return sizes;
}

OperandSizes operand_sizes(const Case& planned) {
  const LocalSizes s = local_sizes(planned.model, planned.layout.tp, 0);
  const int64_t rows = planned.batch.micro * planned.local_sequence_length();
  const int64_t width = planned.model.width;
  OperandSizes sizes;
  sizes.input = rows * std::max({width, s.attention_width, s.ffn_width});
  sizes.weight = width * std::max({s.qkv_width, s.up_width, s.vocabulary});
  sizes.gradient = rows * std::max({width, s.qkv_width, s.up_width});
  const ExpertSizes e = expert_sizes(planned);
  sizes.input =
      std::max({sizes.input, rows * e.shared_width, e.received * std::max(width, e.width)});
  sizes.weight = std::max({sizes.weight, width * e.shared_up_width, e.held * width * e.up_width});
  sizes.gradient = std::max(
      {sizes.gradient, rows * e.shared_up_width, e.received * std::max(width, e.up_width)});
  return sizes;
}

}  // namespace dettax
