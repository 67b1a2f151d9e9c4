#include "harness/base/robust.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dettax {

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double lower_median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double scatter(std::span<const double> values, double center) {
  constexpr double kToStandardDeviation = 1.4826;  // 1 / quantile(0.75) of the normal distribution
  std::vector<double> distances;
  for (double value : values) distances.push_back(std::abs(value - center));
  return kToStandardDeviation * median(std::move(distances));
}

}  // namespace dettax
