#include "harness/evidence/controls.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace dettax {
namespace {

struct Place {
  Knob knob;
  std::string_view phase, op;  // phase empty: any
};

// Where sums of each knob are made, as the ledger names them.
constexpr std::array kPlaces{
    Place{Knob::gemm, "backward", "qkv_weight"},
    Place{Knob::gemm, "backward", "projection_weight"},
    Place{Knob::gemm, "backward", "mlp_up_weight"},
    Place{Knob::gemm, "backward", "mlp_down_weight"},
    Place{Knob::gemm, "backward", "head_weight"},
    Place{Knob::gemm, "", "head_loss"},
    Place{Knob::attention, "backward", "attention"},
    Place{Knob::embedding, "backward", "embedding"},
    Place{Knob::norm, "backward", "norm1"},
    Place{Knob::norm, "backward", "norm2"},
    Place{Knob::norm, "backward", "final_norm"},
    Place{Knob::loss, "", "loss_sum"},
    Place{Knob::loss, "reduce", "loss"},
    Place{Knob::grad_norm, "optimizer", "gradient_norm"},
    Place{Knob::collectives, "reduce", "loss"},
    Place{Knob::collectives, "reduce", "gradients"},
    Place{Knob::collectives, "", "tensor_all_reduce"},
    Place{Knob::collectives, "", "sequence_reduce_scatter"},
    Place{Knob::collectives, "", "sequence_gradients"},
    Place{Knob::collectives, "", "vocabulary_sums"},
    Place{Knob::collectives, "optimizer", "gradient_norm"},
};

// What a dynamic schedule reaches: ordered sums of these depend on who computes what, and those of
// gemm on the chunk that was fastest.
constexpr std::array kScheduled{Knob::gemm, Knob::norm, Knob::loss, Knob::grad_norm};

Order order_of(const Knobs& knobs, Knob knob) {
  switch (knob) {
    case Knob::gemm:
      return knobs.gemm;
    case Knob::norm:
      return knobs.norm;
    case Knob::loss:
      return knobs.loss;
    default:
      return knobs.grad_norm;
  }
}

bool begins_with_micro_batch(std::string_view path) { return path.starts_with("micro"); }

std::optional<std::string> why_no_schedule(const Case& planned, const Mode& mode) {
  const bool reached = std::any_of(kScheduled.begin(), kScheduled.end(), [&](Knob knob) {
    return order_of(mode.knobs, knob) == Order::ordered;
  });
  if (!reached) return "no sum depends on who computes what";
  const bool one_thread = planned.topology.threads_per_rank == 1;
  if (one_thread && mode.knobs.gemm != Order::ordered) return "one compute thread a rank";
  return std::nullopt;
}

std::optional<std::string> why_no_collective(const Case& planned) {
  const int ranks = planned.layout.ranks();
  if (ranks == 1) return "one rank";
  if (ranks == 2) return "two ranks, whose sum has one order";
  return std::nullopt;
}

}  // namespace

std::vector<Knob> control_knobs(const Case& planned) {
  std::vector<Knob> knobs;
  for (const KnobInfo& info : knob_table()) {
    if (info.part != TaxPart::ordering) continue;
    if (info.knob == Knob::moe && !planned.model.moe) continue;
    knobs.push_back(info.knob);
  }
  return knobs;
}

Mode weakened(const Mode& mode, Knob knob) {
  const KnobInfo& info = knob_table().at(static_cast<size_t>(knob));
  Mode weak = mode;
  set_knob(weak.knobs, info.name, info.values.front());
  weak.name = fmt::format("{} with {} {}", mode.name, info.name, info.values.front());
  weak.hash = fmt::format("{}.{}", mode.hash, info.name);
  return weak;
}

std::optional<std::string> why_not_shown(const Case& planned, const Mode& mode, Knob knob) {
  const KnobInfo& info = knob_table().at(static_cast<size_t>(knob));
  if (knob_value(mode.knobs, knob) == info.values.front())
    return fmt::format("{} has it {}", mode.name, info.values.front());
  if (knob == Knob::collectives) return why_no_collective(planned);
  if (knob == Knob::schedule) return why_no_schedule(planned, mode);
  if (planned.topology.threads_per_rank == 1) return "one compute thread a rank";
  if (knob == Knob::embedding && mode.knobs.generic_index_ops)
    return "generic index operations have one order";
  return std::nullopt;
}

bool acts_at(Knob knob, std::string_view path) {
  if (knob == Knob::schedule)
    return std::any_of(kScheduled.begin(), kScheduled.end(),
                       [&](Knob reached) { return acts_at(reached, path); });
  if (begins_with_micro_batch(path)) path.remove_prefix(std::min(path.find('/') + 1, path.size()));
  const std::string_view phase = path.substr(0, path.find('/'));
  const std::string_view op = path.substr(path.rfind('/') + 1);
  return std::any_of(kPlaces.begin(), kPlaces.end(), [&](const Place& place) {
    return place.knob == knob && place.op == op && (place.phase.empty() || place.phase == phase);
  });
}

}  // namespace dettax
