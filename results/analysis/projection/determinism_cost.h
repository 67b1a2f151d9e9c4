#pragma once

#include <array>
#include <string>
#include <vector>

#include "harness/plan/case.h"
#include "results/analysis/projection/collective_cost.h"

namespace dettax {

// What a mode changes in the simulated step. The values of one draw; 1 and false are the fast step.
struct DeterminismCost {
  // Factors of operations.
  double attention_backward_ratio = 1;
  double weight_product_ratio = 1;         // split-K and stream-K barred
  double expert_weight_product_ratio = 1;  // the same of grouped products
  double embedding_backward_ratio = 1;
  double permute_ratio = 1;  // bringing tokens to experts and back
  double norm_backward_ratio = 1;
  double reduction_bytes_ratio = 1;  // a canonical order of summing moves more
  double fill_seconds = 0;           // of each new buffer, launch included
  // Features given up.
  bool memory_fill = false;
  bool fused_loss = true;
  bool tensor_overlap = true, data_overlap = true, context_overlap = true, send_overlap = true;
  bool waits = false;  // sums in a fixed order wait for the slowest
  // Under which order a table of measured times is asked; what it has replaces the factor.
  Order gemm_order = Order::arrival;
  Order attention_order = Order::arrival;
  Order collective_order = Order::arrival;
  double digest_bytes = 0;  // read per parameter and step
  AlgorithmSet algorithms = AlgorithmSet::all();
};

// A factor nobody has measured for every machine: as low, likely and high as it was published.
struct CostRange {
  double low = 1, likely = 1, high = 1;
  std::string source;
  // The value below which a share `uniform` of a triangular distribution lies.
  double at(double uniform) const;
};

// Ranges of all factors, a file with sources: configs/published/determinism.yaml.
struct DeterminismRanges {
  // By generation.
  std::array<CostRange, 4> attention_backward;
  CostRange weight_product, expert_weight_product, embedding_backward, permute, generic_permute,
      generic_embedding, norm_backward, invariant_reduction, fill_seconds;
};
DeterminismRanges load_determinism_ranges();

// One cause by the knob that brings it.
struct CostCause {
  std::string name;  // of the knob
  TaxPart part = TaxPart::ordering;
};

// Which knobs of a mode differ from those of `fast` in a way the simulator knows, in the order of the knob table.
std::vector<CostCause> cost_causes(const Mode& mode, const Mode& fast);

// The costs of the mode with the factors at `uniforms` of their ranges (one for each of kFactors); `only` limits them to one knob.
inline constexpr int kFactors = 8;
using FactorDraw = std::array<double, kFactors>;
constexpr FactorDraw kMedian = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};  // of each range
DeterminismCost determinism_cost(const Mode& mode, const Mode& fast, Generation generation,
                                 const DeterminismRanges& ranges, const FactorDraw& uniforms,
                                 const std::string& only = "");

}  // namespace dettax
