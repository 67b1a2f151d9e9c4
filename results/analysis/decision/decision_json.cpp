#include <cmath>

#include <nlohmann/json.hpp>

#include "results/analysis/decision/decision.h"

namespace dettax {
namespace {

using Json = nlohmann::ordered_json;

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
// As records have it: 1 is no cost.
Json ratio(double overhead) { return finite(1 + overhead); }
Json band(const Band& b) { return {{"p10", b.p10}, {"p50", b.p50}, {"p90", b.p90}}; }

// Of a decision, or of what it would be with fewer knobs.
template <class Answer>
Json policies_json(const Answer& answer) {
  Json policies;
  for (const Policy policy : kPolicies) {
    const size_t i = index_of(policy);
    policies[to_string(policy)] = {{"expected_cost_dollars", answer.cost[i]},
                                   {"cost_at_central_values_dollars", answer.central_cost[i]},
                                   {"cost_band_dollars", band(answer.cost_band[i])},
                                   {"probability_cheapest", answer.probability[i]}};
  }
  return policies;
}

Json subset_json(const SubsetAnswer& answer) {
  const KnobSubset& subset = answer.subset;
  return {{"knobs", subset.knobs},
          {"overhead_ratio", ratio(subset.value)},
          {"overhead_ratio_low", ratio(subset.low)},
          {"overhead_ratio_high", ratio(subset.high)},
          {"source", subset.source},
          {"answer", to_string(answer.best)},
          {"policies", policies_json(answer)},
          {"always_saved_dollars", answer.saved}};
}

}  // namespace

std::string decision_json(const Decision& d, const DecisionInputs& inputs) {
  Json root = {{"schema_version", 1}, {"kind", "decision"}, {"tool_version", DETTAX_VERSION}};
  root["answer"] = to_string(d.best);
  root["sentence"] = d.sentence;
  root["policies"] = policies_json(d);
  root["answer_at_central_values"] = to_string(d.central_best);
  root["break_even_overhead_ratio_at_central_values"] = ratio(d.central_break_even);
  root["break_even_overhead_ratio"] = ratio(d.break_even);
  root["break_even_overhead_ratio_band"] =
      band({1 + d.break_even_band.p10, 1 + d.break_even_band.p50, 1 + d.break_even_band.p90});
  root["always_over_windows_overhead_ratio"] = ratio(d.over_windows);
  root["break_even_gpus"] = finite(d.gpus_break_even);
  root["window_hazard_per_hour"] = finite(d.window_hazard);
  root["cheapest_subset"] = d.cheapest ? subset_json(*d.cheapest) : Json(nullptr);
  if (inputs.cheapest && !inputs.cheapest->refusal.empty())
    root["cheapest_subset_reason"] = inputs.cheapest->refusal;
  root["draws"] = d.draws;
  root["missing"] = d.missing;
  root["tornado"] = Json::array();
  for (const Sensitivity& s : d.tornado) {
    root["tornado"].push_back({{"input", s.input},
                               {"low", s.low},
                               {"high", s.high},
                               {"always_saves_at_low_dollars", s.advantage_low},
                               {"always_saves_at_high_dollars", s.advantage_high},
                               {"best_at_low", to_string(s.best_low)},
                               {"best_at_high", to_string(s.best_high)}});
  }
  for (const DecisionInput& input : inputs.inputs) {
    root["inputs"][input.name] = {{"value", input.value},
                                  {"low", input.low},
                                  {"high", input.high},
                                  {"given", input.given},
                                  {"source", input.source}};
  }
  if (inputs.tax_unresolved) {
    root["inputs"]["overhead_ratio"]["value"] = nullptr;
    root["inputs"]["overhead_ratio"]["value_reason"] = "the run did not resolve it";
  }
  return root.dump(2) + "\n";
}

}  // namespace dettax
