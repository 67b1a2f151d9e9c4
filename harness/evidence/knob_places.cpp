#include "harness/evidence/knob_places.h"

#include <algorithm>
#include <array>

#include "harness/plan/claims.h"
#include "harness/train/observer.h"

namespace dettax {
namespace {

struct Place {
  Knob knob;
  std::string_view phase, op;  // phase empty: any
};

constexpr std::array kPlaces{
    Place{Knob::gemm, "backward", "qkv_weight"},
    Place{Knob::gemm, "backward", "projection_weight"},
    Place{Knob::gemm, "backward", "mlp_up_weight"},
    Place{Knob::gemm, "backward", "mlp_down_weight"},
    Place{Knob::gemm, "backward", "router_weight"},
    Place{Knob::gemm, "backward", "expert_up_weight"},
    Place{Knob::gemm, "backward", "expert_down_weight"},
    Place{Knob::gemm, "backward", "head_weight"},
    Place{Knob::gemm, "", "head_loss"},
    Place{Knob::attention, "backward", "attention"},
    Place{Knob::embedding, "backward", "embedding"},
    Place{Knob::norm, "backward", "norm1"},
    Place{Knob::norm, "backward", "norm2"},
    Place{Knob::norm, "backward", "final_norm"},
    Place{Knob::loss, "", "loss_sum"},
    Place{Knob::loss, "reduce", "loss"},
    Place{Knob::moe, "", "expert_permute"},  // forward: rows claimed; backward: summed
    Place{Knob::moe, "forward", "expert_unpermute"},
    Place{Knob::grad_norm, "optimizer", "gradient_norm"},
    Place{Knob::collectives, "reduce", "loss"},
    Place{Knob::collectives, "reduce", "bucket"},
    Place{Knob::collectives, "reduce", "gradients"},  // where a bucket's sum is shown
    Place{Knob::collectives, "reduce", "tied_table"},
    Place{Knob::collectives, "", "tensor_all_reduce"},
    Place{Knob::collectives, "", "sequence_reduce_scatter"},
    Place{Knob::collectives, "", "sequence_gradients"},
    Place{Knob::collectives, "", "vocabulary_sums"},
    Place{Knob::collectives, "optimizer", "gradient_norm"},
    Place{Knob::memory_fill, "", "memory_fill"},
    Place{Knob::index_ops, "backward", "embedding"},
    Place{Knob::index_ops, "forward", "expert_unpermute"},
    Place{Knob::index_ops, "backward", "expert_permute"},
    Place{Knob::index_ops, "", "cross_entropy"},
    Place{Knob::index_ops, "", "head_loss"},
    Place{Knob::overlap, "reduce", "bucket"},
    Place{Knob::fused_loss, "", "head"},
    Place{Knob::fused_loss, "", "head_weight"},
    Place{Knob::fused_loss, "", "cross_entropy"},
    Place{Knob::fused_loss, "", "head_loss"},
};

constexpr std::array<std::string_view, 8> kProducts{
    "qkv", "projection", "mlp_up", "mlp_down", "router", "expert_up", "expert_down", "head"};

}  // namespace

bool acts_at(Knob knob, std::string_view path, Backend backend) {
  if (knob == Knob::schedule)
    return std::ranges::any_of(scheduled_knobs(),
                               [&](Knob reached) { return acts_at(reached, path, backend); });
  path = without_micro_batch(path);
  const std::string_view phase = path.substr(0, path.find('/'));
  const std::string_view op = path.substr(path.rfind('/') + 1);
  if (backend == Backend::cuda && knob == Knob::gemm &&
      std::ranges::find(kProducts, op) != kProducts.end())
    return true;
  return std::any_of(kPlaces.begin(), kPlaces.end(), [&](const Place& place) {
    return place.knob == knob && place.op == op && (place.phase.empty() || place.phase == phase);
  });
}

std::vector<std::string> ops_of(Knob knob) {
  if (knob == Knob::schedule) return {"all"};
  std::vector<std::string> ops;
  for (const Place& place : kPlaces) {
    if (place.knob != knob) continue;
    const std::string phase(place.phase);
    ops.push_back((phase.empty() ? phase : phase + "/") + std::string(place.op));
  }
  return ops;
}

}  // namespace dettax
