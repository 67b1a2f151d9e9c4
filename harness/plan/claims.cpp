#include "harness/plan/claims.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace dettax {
namespace {

constexpr std::array kScheduled{Knob::gemm, Knob::norm, Knob::loss, Knob::grad_norm};

bool is_scheduled(Knob knob) { return std::ranges::find(kScheduled, knob) != kScheduled.end(); }

Order order_needed(Knob knob, BitsOver over) {
  // Attention sums inside a sample, by one owner of each result.
  if (over == BitsOver::runs || knob == Knob::attention) return Order::ordered;
  if (over == BitsOver::threads && !is_scheduled(knob)) return Order::ordered;
  return Order::invariant;
}

void append(std::vector<UnmetClaim>& out, const Mode& mode, std::string_view claim, BitsOver over) {
  for (const KnobInfo& info : knob_table()) {
    const bool known =
        std::ranges::any_of(out, [&](const UnmetClaim& unmet) { return unmet.knob == info.knob; });
    if (known) continue;
    if (const auto needed = value_needed(mode.knobs, info.knob, over))
      out.push_back({info.knob, claim, *needed});
  }
}

}  // namespace

BitsOver bits_over(std::string_view scope) {
  if (scope == "other_threads") return BitsOver::threads;
  return scope == "other_ranks" ? BitsOver::ranks : BitsOver::runs;
}

std::span<const Knob> scheduled_knobs() { return kScheduled; }

bool schedule_reaches_a_sum(const Knobs& knobs) {
  return std::ranges::any_of(kScheduled,
                             [&](Knob knob) { return order_of(knobs, knob) == Order::ordered; });
}

std::optional<std::string_view> value_needed(const Knobs& knobs, Knob knob, BitsOver over) {
  const KnobInfo& info = knob_table().at(static_cast<size_t>(knob));
  if (info.part != TaxPart::ordering) return std::nullopt;
  if (knob == Knob::schedule) {
    const bool changes = knobs.dynamic_schedule && schedule_reaches_a_sum(knobs);
    if (over == BitsOver::runs && changes) return info.values.at(1);
    return std::nullopt;
  }
  // Generic index operations have one order at least.
  const bool one_order = knob == Knob::embedding && knobs.generic_index_ops;
  const Order present =
      std::max(order_of(knobs, knob), one_order ? Order::ordered : Order::arrival);
  const Order needed = order_needed(knob, over);
  if (present >= needed) return std::nullopt;
  return info.values.at(static_cast<size_t>(needed));
}

std::vector<UnmetClaim> unmet_claims(const Mode& mode) {
  std::vector<UnmetClaim> unmet;
  if (mode.claims_invariant) {
    append(unmet, mode, "claims_invariant", BitsOver::ranks);
    append(unmet, mode, "claims_invariant", BitsOver::threads);
  }
  if (mode.claims_reproducible) append(unmet, mode, "claims_reproducible", BitsOver::runs);
  return unmet;
}

std::string in_words(const UnmetClaim& claim, const Knobs& knobs) {
  return fmt::format("{} does not go with {}: true, which needs {}", knob_value(knobs, claim.knob),
                     claim.claim, claim.needed);
}

}  // namespace dettax
