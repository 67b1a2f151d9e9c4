#include "results/tax_limit.h"

#include <cmath>

namespace dettax {

double certain_bias(const std::optional<Estimate>& control_ratio) {
  if (!control_ratio || (control_ratio->low <= 1 && control_ratio->high >= 1)) return 0;
  return std::abs(std::log(control_ratio->value));
}

TaxBesideLimit tax_beside_limit(const Tax& tax, double limit) {
  TaxBesideLimit found;
  found.bias = certain_bias(tax.control_ratio);
  found.over = tax.overhead_ratio.low * std::exp(-found.bias) > limit;
  found.under = tax.overhead_ratio.high * std::exp(found.bias) < limit;
  found.visible = tax.min_detectable_overhead_ratio <= limit;
  return found;
}

}  // namespace dettax
