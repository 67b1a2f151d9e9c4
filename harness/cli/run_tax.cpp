#include "harness/cli/run_tax.h"

#include <algorithm>

#include <fmt/format.h>

#include "exporters/tax_state.h"

namespace dettax {
namespace {

double overhead(double ratio) { return std::max(0.0, ratio - 1); }

// Why an ablation names no set that could be paid for; empty if it does.
std::string refusal_of(const Ablation& ablation) {
  const SufficientSet& set = ablation.sufficient;
  const bool usable = ablation.refusal.empty() && set.reproducible && set.overhead_ratio;
  if (usable) return "";
  if (!ablation.refusal.empty()) return ablation.refusal;
  if (!set.reason.empty()) return set.reason;
  return set.reproducible ? "it was not timed" : "runs of no smaller set agreed";
}

KnobSubset subset_of(const Ablation& ablation, const std::string& name) {
  KnobSubset subset;
  subset.refusal = refusal_of(ablation);
  if (!subset.refusal.empty()) return subset;
  const SufficientSet& set = ablation.sufficient;
  subset.knobs = set.knobs;
  subset.value = overhead(set.overhead_ratio->value);
  subset.low = overhead(set.overhead_ratio->low);
  subset.high = overhead(set.overhead_ratio->high);
  subset.source = fmt::format("{}, bits equal in {} runs", name, set.runs);
  return subset;
}

}  // namespace

std::vector<RunTax> run_taxes(const std::vector<Record>& records) {
  std::vector<RunTax> taxes;
  for (const Record& record : records) {
    for (const Tax& tax : record.taxes) {
      const TaxState state = tax_state(record, tax);
      if (!has_interval(state)) continue;
      const Estimate& ratio = tax.overhead_ratio;
      RunTax one{record.case_id + "/" + tax.arm, overhead(ratio.value), overhead(ratio.low),
                 overhead(ratio.high),           has_value(state),      std::nullopt};
      if (!one.resolved) one.value = (one.low + one.high) / 2;
      if (record.ablation && record.ablation->arm == tax.arm)
        one.cheapest = subset_of(*record.ablation, one.name);
      taxes.push_back(std::move(one));
    }
  }
  return taxes;
}

}  // namespace dettax
