#pragma once

#include <cstddef>
#include <span>

namespace dettax {

// How far predicted times were off.
struct ErrorSummary {
  double mean_absolute = 0;  // of the error ratios
  double median_absolute = 0;
  double bias = 0;   // their mean
  size_t worst = 0;  // its place among them
};
// All 0 where there are none.
ErrorSummary summarise(std::span<const double> error_ratios);

}  // namespace dettax
