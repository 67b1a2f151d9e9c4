#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/analysis/decision/inputs.h"

namespace dettax {

struct Band {
  double p10 = 0, p50 = 0, p90 = 0;
};

// How the answer moves when one input goes from the low to the high end of its band, all others as drawn.
struct Sensitivity {
  std::string input;
  double low = 0, high = 0;                      // of the input
  double advantage_low = 0, advantage_high = 0;  // cost of never minus cost of always there
  Policy best_low = Policy::never, best_high = Policy::never;
  double swing() const;
};

// What the decision would be if only the cheapest knobs that keep bits equal were paid for.
struct SubsetAnswer {
  KnobSubset subset;
  PolicyCosts cost{};                   // mean over the draws, that tax among them
  PolicyCosts central_cost{};           // at the values
  std::array<Band, 3> cost_band{};      // over the same draws
  std::array<double, 3> probability{};  // that the policy is the cheapest
  Policy best = Policy::never;
  double saved = 0;  // cost of always with the whole mode less that with these knobs
};

// Bands are skewed, so that what is expected is the mean over draws of all inputs, not the cost at their values. Answer, costs and
// thresholds rest on the means.
struct Decision {
  PolicyCosts cost{};                   // mean over the draws
  PolicyCosts central_cost{};           // at the values of the inputs, as worked examples have it
  std::array<Band, 3> cost_band{};      // over the draws
  std::array<double, 3> probability{};  // that the policy is the cheapest
  Policy best = Policy::never;          // of the least mean
  Policy central_best = Policy::never;
  double central_break_even = 0;
  Policy likeliest = Policy::never;
  PolicyCosts untaxed_cost{};  // mean at an overhead of 0
  PolicyCosts tax_cost{};      // and what an overhead of 1 adds: costs are linear in it
  double break_even = 0;       // overhead up to which always costs less than never
  Band break_even_band;        // by single draws
  double over_windows = 0;     // overhead up to which always beats windows; negative: it never does
  double gpus_break_even = 0;
  double anomalies_per_hour = 0;         // of the whole cluster
  double window_hazard = 0;              // anomalies an hour above which a window pays
  std::vector<Sensitivity> tornado;      // largest swing first
  std::optional<SubsetAnswer> cheapest;  // nothing where no such knobs are known
  std::vector<std::string> missing;      // inputs that were asked for and not given
  int draws = 0;
  std::string sentence;
};

Decision decide(const DecisionInputs& inputs, int draws, uint64_t seed);

// The same at other numbers of GPUs, for whom has not said how many.
struct SizeRow {
  double gpus = 0;
  double break_even = 0;
  Policy best = Policy::never;
  double probability = 0;
};
// Mean costs as the tax goes from nothing to well above every threshold of the answer
struct CostPoint {
  double overhead_ratio = 0;
  PolicyCosts cost{};
};
std::vector<CostPoint> costs_by_tax(const DecisionInputs& inputs, const Decision& decision,
                                    int points);

std::vector<SizeRow> by_size(const DecisionInputs& inputs, int draws, uint64_t seed);

std::string decision_json(const Decision& decision, const DecisionInputs& inputs);

}  // namespace dettax
