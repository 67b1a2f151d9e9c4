#include "harness/evidence/controls.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/plan/claims.h"

namespace dettax {
namespace {

// Then nothing arrives out of turn. A device has threads of its own.
bool one_thread(const Case& planned) {
  return planned.backend == Backend::cpu && planned.topology.threads_per_rank == 1;
}

std::optional<std::string> why_no_schedule(const Case& planned, const Mode& mode) {
  if (!schedule_reaches_a_sum(mode.knobs)) return "no sum depends on who computes what";
  if (one_thread(planned) && mode.knobs.gemm != Order::ordered) return "one compute thread a rank";
  return std::nullopt;
}

std::optional<std::string> why_no_collective(const Case& planned) {
  const Layout& layout = planned.layout;
  if (layout.ranks() == 1) return "one rank";
  // Gradients are summed over replicas, partial products over tensor ranks, the squares of the norm over all parts of a model.
  const int most = std::max({layout.dp * layout.cp, layout.tp * layout.pp});
  if (most > 2) return std::nullopt;
  if (layout.ranks() == 2) return "two ranks, whose sum has one order";
  return "no sum over more than two ranks, and two have one order";
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
  if (one_thread(planned)) return "one compute thread a rank";
  if (knob == Knob::embedding && mode.knobs.generic_index_ops)
    return "generic index operations have one order";
  return std::nullopt;
}

}  // namespace dettax
