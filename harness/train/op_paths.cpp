#include "harness/train/op_paths.h"

#include <algorithm>

#include "harness/plan/local_sizes.h"
#include "harness/train/precision.h"
#include "harness/train/probe.h"

namespace dettax {
namespace {

// What decides which ops there are.
struct Facts {
  bool dropout, rope, swiglu, gelu, fused_loss, memory_fill, several_ranks, tree, apart;
};

Facts facts_of(const Case& planned, const Mode& mode) {
  return {.dropout = planned.model.dropout > 0,
          .rope = planned.model.position == Position::rope,
          .swiglu = planned.model.activation == Activation::swiglu,
          // Of its own only where a product's result is rounded before it.
          .gelu = planned.model.activation == Activation::gelu &&
                  recipe_of(planned.precision).activations != NumberFormat::f32,
          .fused_loss = mode.knobs.fused_loss,
          .memory_fill = mode.knobs.memory_fill,
          .several_ranks = planned.layout.dp > 1,
          .tree = gradients_as_tree(mode.knobs) && planned.micro_batches() > 1,
          .apart = tied_uses_apart(planned, mode.knobs)};
}

constexpr unsigned bit(Phase phase) { return 1U << static_cast<unsigned>(phase); }
constexpr unsigned kForward = bit(Phase::forward), kBackward = bit(Phase::backward),
                   kReduce = bit(Phase::reduce), kOptimizer = bit(Phase::optimizer);
constexpr unsigned kBoth = kForward | kBackward;

// In which phases an op of a data-parallel step stands within layers and outside of them, and on what it
// depends. Ops of other layouts and of experts are not listed.
struct Place {
  Op op;
  unsigned in_layers, outside;
  bool (*issued)(const Facts&) = [](const Facts&) { return true; };
};

const std::vector<Place>& places() {
  const auto dropout = [](const Facts& f) { return f.dropout; };
  const auto separate_loss = [](const Facts& f) { return !f.fused_loss; };
  static const std::vector<Place> table = {
      {Op::data, 0, kForward},
      {Op::embedding, 0, kBoth},
      {Op::embedding_dropout, 0, kBoth, dropout},
      {Op::norm1, kBoth, 0},
      {Op::qkv, kBoth, 0},
      {Op::qkv_weight, kBackward, 0},
      {Op::rope, kBoth, 0, [](const Facts& f) { return f.rope; }},
      {Op::attention, kBoth, 0},
      {Op::projection, kBoth, 0},
      {Op::projection_weight, kBackward, 0},
      {Op::projection_dropout, kBoth, 0, dropout},
      {Op::projection_residual, kForward, 0, dropout},
      {Op::norm2, kBoth, 0},
      {Op::mlp_up, kBoth, 0},
      {Op::mlp_up_weight, kBackward, 0},
      {Op::swiglu, kBoth, 0, [](const Facts& f) { return f.swiglu; }},
      {Op::gelu, kForward, 0, [](const Facts& f) { return f.gelu; }},
      {Op::mlp_down, kBoth, 0},
      {Op::mlp_down_weight, kBackward, 0},
      {Op::mlp_dropout, kBoth, 0, dropout},
      {Op::mlp_residual, kForward, 0, dropout},
      {Op::final_norm, 0, kBoth},
      {Op::head, 0, kBoth, separate_loss},
      {Op::head_weight, 0, kBackward, separate_loss},
      {Op::cross_entropy, 0, kForward, separate_loss},
      {Op::head_loss, 0, kForward, [](const Facts& f) { return f.fused_loss; }},
      {Op::loss_sum, 0, kForward},
      {Op::memory_fill, kBoth, kBoth, [](const Facts& f) { return f.memory_fill; }},
      {Op::gradient_tree, 0, kBackward, [](const Facts& f) { return f.tree; }},
      {Op::gradients, 0, kReduce},
      {Op::bucket, 0, kReduce, [](const Facts& f) { return f.several_ranks; }},
      {Op::tied_head, 0, kReduce, [](const Facts& f) { return f.apart; }},
      {Op::loss, 0, kReduce},
      {Op::gradient_norm, 0, kOptimizer},
      {Op::clip, 0, kOptimizer},
      {Op::adamw, 0, kOptimizer},
  };
  return table;
}

bool issued(const Place& place, Phase phase, bool in_layer, const Facts& facts) {
  const unsigned phases = in_layer ? place.in_layers : place.outside;
  return (phases & bit(phase)) != 0 && place.issued(facts);
}

bool data_parallel_only(const Layout& layout) {
  Layout plain;
  plain.dp = layout.dp;
  return to_string(layout) == to_string(plain);
}

}  // namespace

std::vector<std::string> op_paths(const Case& planned, const Mode& mode) {
  const Facts facts = facts_of(planned, mode);
  const bool exact = data_parallel_only(planned.layout) && !planned.model.moe;
  std::vector<std::string> paths;
  for (int p = 0; p < kPhaseCount; ++p) {
    for (int64_t layer = kNoLayer; layer < planned.model.layers; ++layer) {
      for (int o = 0; o < kOpCount; ++o) {
        const auto phase = static_cast<Phase>(p);
        const auto op = static_cast<Op>(o);
        const auto place = std::find_if(places().begin(), places().end(),
                                        [&](const Place& one) { return one.op == op; });
        const bool known = place != places().end();
        if (!exact || (known && issued(*place, phase, layer != kNoLayer, facts)))
          paths.push_back(op_path(phase, layer, op));
      }
    }
  }
  return paths;
}

}  // namespace dettax
