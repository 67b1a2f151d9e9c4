#pragma once

#include <optional>

#include "results/record.h"

namespace dettax {

// How far two arms that are the same were certainly apart, as a logarithm; 0 if they were not shown to be.
double certain_bias(const std::optional<Estimate>& control_ratio);

// A tax beside a limit of the ratio. Its interval is widened by the control's bias on either side: a machine that tells two equal arms
// apart tells no smaller tax from a limit.
struct TaxBesideLimit {
  double bias = 0;      // of the control, as a logarithm
  bool over = false;    // the whole interval is
  bool under = false;   // likewise
  bool visible = true;  // a tax as large as the limit would have been detected
};
TaxBesideLimit tax_beside_limit(const Tax& tax, double limit);

}  // namespace dettax
