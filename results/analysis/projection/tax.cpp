#include "results/analysis/projection/tax.h"

#include <algorithm>

#include "results/analysis/projection/measured_factors.h"

namespace dettax {
namespace {

constexpr uint32_t kFactorStream = 3;

FactorDraw draw(const StepJitter& jitter, uint64_t number) {
  const RandomKey key{jitter.seed, RandomPurpose::analysis, kFactorStream};
  FactorDraw uniforms{};
  for (size_t i = 0; i < uniforms.size(); ++i)
    uniforms[i] = uniform(random_words(key, number, i / 4)[i % 4]);
  return uniforms;
}

class Projector {
 public:
  explicit Projector(const TaxRequest& request) : r_(request) {}

  DeterminismCost cost(const FactorDraw& uniforms, const std::string& only = "") const {
    DeterminismCost c =
        determinism_cost(r_.mode, r_.fast, r_.machine.generation, r_.ranges, uniforms, only);
    if (r_.table != nullptr)
      use_measured_factors(c, *r_.table, r_.mode, r_.fast, r_.plan.model, r_.plan.precision, only);
    if (r_.lose_tensor_overlap && (only.empty() || only == kLostOverlap)) c.tensor_overlap = false;
    return c;
  }
  Projection noisy(const DeterminismCost& c) const {
    return simulate({r_.machine, r_.plan, c, r_.table}, r_.jitter, r_.samples);
  }
  double quiet(const DeterminismCost& c) const {
    return simulate(Situation{r_.machine, r_.plan, c, r_.table}).step_seconds;
  }

  std::vector<CostCause> causes() const {
    std::vector<CostCause> all = cost_causes(r_.mode, r_.fast);
    if (r_.lose_tensor_overlap) all.push_back({kLostOverlap, TaxPart::opportunity});
    return all;
  }

 private:
  static constexpr const char* kLostOverlap = "tensor_overlap";
  const TaxRequest& r_;
};

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

ProjectedTax project_tax(const TaxRequest& request) {
  const Projector projector(request);
  ProjectedTax tax;
  tax.draws = request.draws;
  tax.fast = projector.noisy(DeterminismCost{});
  tax.deterministic = projector.noisy(projector.cost(kMedian));
  tax.typical = tax.deterministic.step_seconds / tax.fast.step_seconds - 1;
  const double quiet = projector.quiet(DeterminismCost{});
  tax.interaction = tax.typical;
  for (const CostCause& cause : projector.causes()) {
    const double ratio = projector.quiet(projector.cost(kMedian, cause.name)) / quiet - 1;
    tax.parts.push_back({cause, ratio});
    tax.interaction -= ratio;
  }
  std::stable_sort(tax.parts.begin(), tax.parts.end(),
                   [](const CausePart& a, const CausePart& b) { return a.ratio > b.ratio; });
  std::vector<double> taxes;
  for (int k = 0; k < request.draws; ++k)
    taxes.push_back(
        projector.quiet(projector.cost(draw(request.jitter, static_cast<uint64_t>(k)))) / quiet -
        1);
  if (taxes.empty()) taxes.push_back(tax.typical);
  std::sort(taxes.begin(), taxes.end());
  tax.p10 = quantile(taxes, 0.1);
  tax.p50 = quantile(taxes, 0.5);
  tax.p90 = quantile(taxes, 0.9);
  return tax;
}

}  // namespace dettax
