#include "results/analysis/projection/error_summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dettax {

ErrorSummary summarise(std::span<const double> error_ratios) {
  ErrorSummary summary;
  if (error_ratios.empty()) return summary;
  const auto count = static_cast<double>(error_ratios.size());
  std::vector<double> absolute;
  for (size_t i = 0; i < error_ratios.size(); ++i) {
    absolute.push_back(std::abs(error_ratios[i]));
    summary.mean_absolute += absolute[i] / count;
    summary.bias += error_ratios[i] / count;
    if (absolute[i] > absolute[summary.worst]) summary.worst = i;
  }
  std::ranges::sort(absolute);
  summary.median_absolute = absolute[absolute.size() / 2];
  return summary;
}

}  // namespace dettax
