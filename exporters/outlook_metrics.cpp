#include "exporters/outlook.h"

namespace dettax {
namespace {

enum OutlookFamily : size_t {
  kProjectedStep,
  kProjectedOverhead,
  kProjectedLow,
  kProjectedHigh,
  kProjectedTokens,
  kProjectedMemory,
  kAnswer,
  kCost,
  kProbability,
  kTaken,
  kBreakEven,
};

using Samples = std::vector<std::vector<Sample>>;

Labels with(Labels labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

void add_projection(Samples& samples, const ProjectedStep& p) {
  const Labels base{{"config_id", p.name()}, {"precision", p.precision}, {"gpu_model", p.device}};
  samples[kProjectedStep].push_back({with(base, {{"mode", "fast"}}), p.fast_seconds});
  samples[kProjectedStep].push_back({with(base, {{"mode", "det"}}), p.deterministic_seconds});
  samples[kProjectedOverhead].push_back({base, 1 + p.tax});
  samples[kProjectedLow].push_back({base, 1 + p.p10});
  samples[kProjectedHigh].push_back({base, 1 + p.p90});
  samples[kProjectedTokens].push_back({with(base, {{"mode", "fast"}}), p.tokens_per_second});
  samples[kProjectedMemory].push_back({base, p.memory_bytes});
}

// Costs of one set of knobs: the mode's, or the cheapest.
template <class Answer>
void add_answer(Samples& samples, const Labels& base, const Answer& answer) {
  for (const Policy policy : kPolicies) {
    const size_t i = index_of(policy);
    const Labels labels = with(base, {{"policy", to_string(policy)}});
    samples[kAnswer].push_back({labels, policy == answer.best ? 1.0 : 0.0});
    samples[kCost].push_back({with(labels, {{"stat", "expected"}}), answer.cost[i]});
    samples[kCost].push_back({with(labels, {{"stat", "p10"}}), answer.cost_band[i].p10});
    samples[kCost].push_back({with(labels, {{"stat", "p90"}}), answer.cost_band[i].p90});
    samples[kProbability].push_back({labels, answer.probability[i]});
  }
}

void add_decision(Samples& samples, const DecisionOutlook& outlook) {
  // Without a number of GPUs there is a band of answers, and none of them is exported as one.
  if (!outlook.sizes.empty()) return;
  const Decision& d = outlook.decision;
  const Labels mode{{"knobs", "mode"}}, cheapest{{"knobs", "cheapest"}};
  add_answer(samples, mode, d);
  if (!outlook.inputs.tax_unresolved)
    samples[kTaken].push_back({mode, 1 + outlook.inputs.named("overhead_ratio").value});
  if (d.cheapest) {
    add_answer(samples, cheapest, *d.cheapest);
    samples[kTaken].push_back({cheapest, 1 + d.cheapest->subset.value});
  }
  samples[kBreakEven].push_back({{{"stat", "expected"}}, 1 + d.break_even});
  samples[kBreakEven].push_back({{{"stat", "p10"}}, 1 + d.break_even_band.p10});
  samples[kBreakEven].push_back({{{"stat", "p90"}}, 1 + d.break_even_band.p90});
}

}  // namespace

const std::vector<MetricFamily>& outlook_metric_families() {
  static const std::vector<MetricFamily> kFamilies = {
      {"dettax_projected_step_time_seconds", "seconds", "Simulated step time, not measured."},
      {"dettax_projected_overhead_ratio", "ratio",
       "Simulated deterministic step time over the fast one, all factors at their medians; 1 is no "
       "cost."},
      {"dettax_projected_overhead_p10_ratio", "ratio",
       "The same, below which a tenth of the draws of the factors lies."},
      {"dettax_projected_overhead_p90_ratio", "ratio",
       "The same, above which a tenth of the draws of the factors lies."},
      {"dettax_projected_tokens_per_second", "", "Simulated global throughput."},
      {"dettax_projected_memory_bytes", "bytes", "Simulated memory of the fullest device."},
      {"dettax_decision", "", "1 for the policy with the least expected cost, 0 for the others."},
      {"dettax_decision_cost_dollars", "dollars",
       "Cost of the policy over the run beyond undisturbed fast training; expected is the mean "
       "over "
       "draws of all inputs."},
      {"dettax_decision_cheapest_ratio", "ratio",
       "Share of the draws of all inputs in which the policy is the cheapest."},
      {"dettax_decision_overhead_ratio", "ratio", "Overhead that the decision took; 1 is no cost."},
      {"dettax_decision_break_even_overhead_ratio", "ratio",
       "Overhead up to which always costs less than never; 1 is no cost."},
  };
  return kFamilies;
}

Samples outlook_samples(const Outlook& outlook) {
  Samples samples(outlook_metric_families().size());
  for (const ProjectedStep& projection : outlook.projections) add_projection(samples, projection);
  if (outlook.decision) add_decision(samples, *outlook.decision);
  return samples;
}

}  // namespace dettax
