#include "results/analysis/decision/decision.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/format.h"
#include "harness/base/random.h"
#include "harness/base/text.h"

namespace dettax {
namespace {

constexpr uint32_t kInputStream = 10;
constexpr std::array<Policy, 3> kPolicies = {Policy::never, Policy::windows, Policy::always};

size_t index_of(Policy policy) { return static_cast<size_t>(policy); }

// Triangular between the ends, its peak at the value; by orders of magnitude where the band spans more than one third of one.
double draw(const DecisionInput& input, double u) {
  if (input.high <= input.low) return input.value;
  const bool wide = input.low > 0 && input.high > 2 * input.low;
  const double low = wide ? std::log(input.low) : input.low;
  const double high = wide ? std::log(input.high) : input.high;
  const double peak = wide ? std::log(input.value) : input.value;
  const double share = (peak - low) / (high - low);
  const double at = u < share ? low + std::sqrt(u * (high - low) * (peak - low))
                              : high - std::sqrt((1 - u) * (high - low) * (high - peak));
  return wide ? std::exp(at) : at;
}

Economics drawn(const DecisionInputs& inputs, uint64_t seed, uint64_t number) {
  Economics e;
  for (size_t i = 0; i < inputs.inputs.size(); ++i) {
    const RandomKey key{seed, RandomPurpose::analysis, kInputStream + static_cast<uint32_t>(i)};
    economics_value(e, inputs.inputs[i].name) =
        draw(inputs.inputs[i], uniform(random_words(key, 0, number)[0]));
  }
  return e;
}

double quantile(std::vector<double>& values, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(at), values.end());
  return values[at];
}

Band band_of(std::vector<double> values) {
  return {quantile(values, 0.1), quantile(values, 0.5), quantile(values, 0.9)};
}

void propagate(const DecisionInputs& inputs, int draws, uint64_t seed, Decision& decision) {
  std::array<std::vector<double>, 3> costs;
  std::vector<double> break_evens;
  for (int k = 0; k < draws; ++k) {
    const Economics e = drawn(inputs, seed, static_cast<uint64_t>(k));
    for (const Policy policy : kPolicies) costs[index_of(policy)].push_back(policy_cost(e, policy));
    decision.probability[index_of(best_policy(e))] += 1.0 / draws;
    break_evens.push_back(break_even_overhead(e));
  }
  for (const Policy policy : kPolicies)
    decision.cost_band[index_of(policy)] = band_of(costs[index_of(policy)]);
  decision.break_even_band = band_of(break_evens);
  for (const Policy policy : kPolicies) {
    if (decision.probability[index_of(policy)] > decision.probability[index_of(decision.likeliest)])
      decision.likeliest = policy;
  }
}

double advantage(const Economics& e) {
  return policy_cost(e, Policy::never) - policy_cost(e, Policy::always);
}

std::vector<Sensitivity> tornado(const DecisionInputs& inputs) {
  std::vector<Sensitivity> rows;
  for (const DecisionInput& input : inputs.inputs) {
    if (input.high <= input.low) continue;
    const Economics low = inputs.with(input.name, input.low);
    const Economics high = inputs.with(input.name, input.high);
    rows.push_back({input.name, input.low, input.high, advantage(low), advantage(high),
                    best_policy(low), best_policy(high)});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Sensitivity& a, const Sensitivity& b) {
    return a.swing() > b.swing();
  });
  return rows;
}

std::string policy_words(Policy policy) {
  switch (policy) {
    case Policy::never:
      return "Never run deterministically";
    case Policy::windows:
      return "Run deterministically in windows";
    case Policy::always:
      return "Run deterministically always";
  }
  return "";
}

std::string money(double amount) { return "$" + format_count(amount); }

// The two inputs that decide most, in words.
std::string deciders(const Decision& d) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min<size_t>(2, d.tornado.size()); ++i)
    names.push_back(d.tornado[i].input);
  return names.empty() ? "" : fmt::format(" What decides most: {}.", join(names, " and "));
}

// Costs, bands and probabilities with another tax in place of the mode's.
SubsetAnswer answer_with(const KnobSubset& subset, const DecisionInputs& inputs,
                         const Decision& whole, int draws, uint64_t seed) {
  DecisionInput tax = inputs.named("overhead_ratio");
  tax.value = subset.value;
  tax.low = subset.low;
  tax.high = subset.high;
  const DecisionInputs changed = inputs.with_input(tax);
  Decision scratch;
  propagate(changed, draws, seed, scratch);
  SubsetAnswer answer;
  answer.subset = subset;
  const Economics e = changed.economics();
  for (const Policy policy : kPolicies) answer.cost[index_of(policy)] = policy_cost(e, policy);
  answer.cost_band = scratch.cost_band;
  answer.probability = scratch.probability;
  answer.best = subset.high == 0 ? Policy::always : best_policy(e);
  answer.saved = whole.cost[index_of(Policy::always)] - answer.cost[index_of(Policy::always)];
  return answer;
}

std::string knob_words(const KnobSubset& subset) {
  return subset.knobs.empty() ? "no knob at all" : join(subset.knobs, ", ");
}

std::string subset_words(const SubsetAnswer& answer) {
  return fmt::format(
      " With only {} set the bits stay equal at a tax of {}: then {} is the cheapest ({}, in {} of "
      "the draws).",
      knob_words(answer.subset), format_signed_percent(answer.subset.value), to_string(answer.best),
      money(answer.cost[index_of(answer.best)]),
      format_percent(answer.probability[index_of(answer.best)], 0));
}

std::string sentence_of(const Decision& d, bool free) {
  const double share = d.probability[index_of(d.best)];
  const double rival = [&] {
    double least = HUGE_VAL;
    for (const Policy policy : kPolicies) {
      if (policy != d.best) least = std::min(least, d.cost[index_of(policy)]);
    }
    return least;
  }();
  std::string text = fmt::format(
      "{}: {} expected against {} for the next best, the cheapest in {} of {} draws of the inputs. "
      "Always pays against "
      "never up to a tax of {} ({} to {}).",
      policy_words(d.best), money(d.cost[index_of(d.best)]), money(rival), format_percent(share, 0),
      d.draws, format_percent(d.break_even), format_percent(d.break_even_band.p10),
      format_percent(d.break_even_band.p90));
  if (free) text = "Always is free: the tax is 0. " + text;
  if (d.likeliest != d.best)
    text +=
        fmt::format(" Over all draws \"{}\" is cheapest more often: the inputs do not settle it.",
                    to_string(d.likeliest));
  if (d.cheapest) text += subset_words(*d.cheapest);
  return text + deciders(d);
}

}  // namespace

double Sensitivity::swing() const { return std::abs(advantage_high - advantage_low); }

Decision decide(const DecisionInputs& inputs, int draws, uint64_t seed) {
  Decision d;
  d.economics = inputs.economics();
  d.draws = draws;
  for (const Policy policy : kPolicies) d.cost[index_of(policy)] = policy_cost(d.economics, policy);
  d.best = best_policy(d.economics);
  // What surely costs nothing has nothing to be weighed against; a tax that was not told from 0 may cost something.
  const bool free = inputs.named("overhead_ratio").high == 0;
  if (free) d.best = Policy::always;
  d.break_even = break_even_overhead(d.economics);
  d.over_windows = always_over_windows_overhead(d.economics);
  d.gpus_break_even = break_even_gpus(d.economics);
  d.window_hazard = window_hazard_per_hour(d.economics);
  d.missing = inputs.missing();
  propagate(inputs, draws, seed, d);
  d.tornado = tornado(inputs);
  if (inputs.cheapest && inputs.cheapest->refusal.empty())
    d.cheapest = answer_with(*inputs.cheapest, inputs, d, draws, seed);
  d.sentence = sentence_of(d, free);
  return d;
}

std::vector<CostPoint> costs_by_tax(const DecisionInputs& inputs, const Decision& decision,
                                    int points) {
  const DecisionInput& tax = inputs.named("overhead_ratio");
  const double end = 1.3 * std::max({tax.high, decision.break_even, decision.over_windows, 0.01});
  std::vector<CostPoint> curve;
  for (int i = 0; i < points; ++i) {
    CostPoint point;
    point.overhead_ratio = end * i / (points - 1);
    const Economics e = inputs.with("overhead_ratio", point.overhead_ratio);
    for (const Policy policy : kPolicies) point.cost[index_of(policy)] = policy_cost(e, policy);
    curve.push_back(point);
  }
  return curve;
}

std::vector<SizeRow> by_size(const DecisionInputs& inputs, int draws, uint64_t seed) {
  std::vector<SizeRow> rows;
  for (const double gpus : {256.0, 1024.0, 4096.0, 16384.0, 65536.0}) {
    DecisionInputs sized = inputs;
    for (DecisionInput& input : sized.inputs) {
      if (input.name == "gpus") input.value = input.low = input.high = gpus;
    }
    const Decision d = decide(sized, draws, seed);
    rows.push_back({gpus, d.break_even, d.best, d.probability[index_of(d.best)]});
  }
  return rows;
}

}  // namespace dettax
