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

using Draws = std::vector<Economics>;

Draws draws_of(const DecisionInputs& inputs, int count, uint64_t seed) {
  Draws draws;
  for (int k = 0; k < count; ++k) draws.push_back(drawn(inputs, seed, static_cast<uint64_t>(k)));
  return draws;
}

template <class Value>
double mean(const Draws& draws, Value value) {
  double sum = 0;
  for (const Economics& e : draws) sum += value(e);
  return sum / static_cast<double>(draws.size());
}

// Mean cost of each policy, one input being the same in all draws.
PolicyCosts mean_costs(const Draws& draws, const std::string& input, double value) {
  PolicyCosts sum{};
  for (Economics e : draws) {
    economics_value(e, input) = value;
    const PolicyCosts costs = policy_costs(e);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += costs[i];
  }
  for (double& cost : sum) cost /= static_cast<double>(draws.size());
  return sum;
}

// What always saves.
double advantage(const PolicyCosts& costs) {
  return costs[index_of(Policy::never)] - costs[index_of(Policy::always)];
}

// Of a Decision, or of what it would be with fewer knobs.
template <class Answer>
void propagate(const Draws& draws, Answer& answer) {
  std::array<std::vector<double>, 3> by_policy;
  for (const Economics& e : draws) {
    const PolicyCosts costs = policy_costs(e);
    for (size_t i = 0; i < costs.size(); ++i) {
      by_policy[i].push_back(costs[i]);
      answer.cost[i] += costs[i] / static_cast<double>(draws.size());
    }
    answer.probability[index_of(cheapest_of(costs))] += 1.0 / static_cast<double>(draws.size());
  }
  for (size_t i = 0; i < by_policy.size(); ++i) answer.cost_band[i] = band_of(by_policy[i]);
  answer.best = cheapest_of(answer.cost);
}

// Overhead up to which `dear` costs less than `other`, both of them linear in it.
double crossing(const PolicyCosts& untaxed, const PolicyCosts& tax, Policy dear, Policy other) {
  const double saved = untaxed[index_of(other)] - untaxed[index_of(dear)];
  const double more = tax[index_of(dear)] - tax[index_of(other)];
  if (more > 0) return saved / more;
  return saved > 0 ? HUGE_VAL : 0;
}

PolicyCosts less(const PolicyCosts& a, const PolicyCosts& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

double exact_break_even(Economics e) {
  e.overhead_ratio = 0;
  const PolicyCosts untaxed = policy_costs(e);
  e.overhead_ratio = 1;
  return crossing(untaxed, less(policy_costs(e), untaxed), Policy::always, Policy::never);
}

// What always saves is a polynomial of second degree of the size; 0 where it pays at any size.
double gpus_from_which_always_pays(const Draws& draws) {
  constexpr double kSize = 4096;
  const auto at = [&](double gpus) { return advantage(mean_costs(draws, "gpus", gpus)); };
  const double fixed = at(0), above = at(kSize), below = at(-kSize);
  const double linear = (above - below) / 2;
  const double square = (above + below) / 2 - fixed;
  if (square <= 0) return linear >= 0 && fixed >= 0 ? 0 : HUGE_VAL;
  const double root = std::sqrt(std::max(0.0, linear * linear - 4 * square * fixed));
  return std::max(0.0, kSize * (root - linear) / (2 * square));
}

void add_thresholds(const Draws& draws, Decision& d) {
  d.untaxed_cost = mean_costs(draws, "overhead_ratio", 0);
  d.tax_cost = less(mean_costs(draws, "overhead_ratio", 1), d.untaxed_cost);
  d.break_even = crossing(d.untaxed_cost, d.tax_cost, Policy::always, Policy::never);
  d.over_windows = crossing(d.untaxed_cost, d.tax_cost, Policy::always, Policy::windows);
  std::vector<double> break_evens;
  for (const Economics& e : draws) break_evens.push_back(exact_break_even(e));
  d.break_even_band = band_of(break_evens);
  d.gpus_break_even = gpus_from_which_always_pays(draws);
  d.anomalies_per_hour =
      mean(draws, [](const Economics& e) { return e.anomalies_per_gpu_hour * e.gpus; });
  const double gain = mean(draws, anomaly_saving);
  d.window_hazard = gain > 0 ? mean(draws, slower_hour_cost) / gain : HUGE_VAL;
}

std::vector<Sensitivity> tornado(const DecisionInputs& inputs, const Draws& draws) {
  std::vector<Sensitivity> rows;
  for (const DecisionInput& input : inputs.inputs) {
    if (input.high <= input.low) continue;
    const PolicyCosts low = mean_costs(draws, input.name, input.low);
    const PolicyCosts high = mean_costs(draws, input.name, input.high);
    rows.push_back({input.name, input.low, input.high, advantage(low), advantage(high),
                    cheapest_of(low), cheapest_of(high)});
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
                         const Decision& whole, uint64_t seed) {
  DecisionInput tax = inputs.named("overhead_ratio");
  tax.value = subset.value;
  tax.low = subset.low;
  tax.high = subset.high;
  SubsetAnswer answer;
  answer.subset = subset;
  const DecisionInputs changed = inputs.with_input(tax);
  propagate(draws_of(changed, whole.draws, seed), answer);
  answer.central_cost = policy_costs(changed.economics());
  if (subset.high == 0) answer.best = Policy::always;
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
  if (d.central_best != d.best)
    text += fmt::format(
        " At the central values of the inputs \"{}\" would be the cheapest, but their bands are "
        "skewed.",
        to_string(d.central_best));
  if (d.cheapest) text += subset_words(*d.cheapest);
  return text + deciders(d);
}

}  // namespace

double Sensitivity::swing() const { return std::abs(advantage_high - advantage_low); }

Decision decide(const DecisionInputs& inputs, int draws, uint64_t seed) {
  Decision d;
  d.draws = draws;
  d.missing = inputs.missing();
  const Draws all = draws_of(inputs, draws, seed);
  propagate(all, d);
  for (const Policy policy : kPolicies) {
    if (d.probability[index_of(policy)] > d.probability[index_of(d.likeliest)])
      d.likeliest = policy;
  }
  d.central_cost = policy_costs(inputs.economics());
  d.central_best = cheapest_of(d.central_cost);
  d.central_break_even = break_even_overhead(inputs.economics());
  // What surely costs nothing has nothing to be weighed against; a tax that was not told from 0 may cost something.
  const bool free = inputs.named("overhead_ratio").high == 0 && !inputs.tax_unresolved;
  if (free) d.best = d.central_best = Policy::always;
  add_thresholds(all, d);
  d.tornado = tornado(inputs, all);
  if (inputs.cheapest && inputs.cheapest->refusal.empty())
    d.cheapest = answer_with(*inputs.cheapest, inputs, d, seed);
  d.sentence = sentence_of(d, free);
  return d;
}

std::vector<CostPoint> costs_by_tax(const DecisionInputs& inputs, const Decision& decision,
                                    int points) {
  const DecisionInput& tax = inputs.named("overhead_ratio");
  const double windows = std::isfinite(decision.over_windows) ? decision.over_windows : 0;
  const double end = 1.3 * std::max({tax.high, decision.break_even, windows, 0.01});
  std::vector<CostPoint> curve;
  for (int i = 0; i < points; ++i) {
    CostPoint point;
    point.overhead_ratio = end * i / (points - 1);
    for (size_t k = 0; k < point.cost.size(); ++k)
      point.cost[k] = decision.untaxed_cost[k] + point.overhead_ratio * decision.tax_cost[k];
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
