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

// How the answer moves when one input goes from the low to the high end of its band.
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
  std::array<double, 3> cost{};         // by policy, at that tax
  std::array<Band, 3> cost_band{};      // over draws of all inputs, that tax among them
  std::array<double, 3> probability{};  // that the policy is the cheapest
  Policy best = Policy::never;
  double saved = 0;  // cost of always with the whole mode less that with these knobs
};

struct Decision {
  Economics economics;
  std::array<double, 3> cost{};         // by policy, at the values
  std::array<Band, 3> cost_band{};      // over draws of all inputs
  std::array<double, 3> probability{};  // that the policy is the cheapest
  Policy best = Policy::never;          // at the values
  Policy likeliest = Policy::never;
  double break_even = 0;  // overhead
  Band break_even_band;
  double over_windows = 0;  // overhead up to which always beats windows
  double gpus_break_even = 0;
  double window_hazard = 0;              // anomalies an hour
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
// Costs as the tax goes from nothing to well above every threshold of the answer, all else at its value.
struct CostPoint {
  double overhead_ratio = 0;
  std::array<double, 3> cost{};  // by policy
};
std::vector<CostPoint> costs_by_tax(const DecisionInputs& inputs, const Decision& decision,
                                    int points);

std::vector<SizeRow> by_size(const DecisionInputs& inputs, int draws, uint64_t seed);

std::string decision_json(const Decision& decision, const DecisionInputs& inputs);

}  // namespace dettax
