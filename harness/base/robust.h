#pragma once

#include <span>
#include <vector>

namespace dettax {

double median(std::vector<double> values);  // NaN if empty
// Median absolute deviation from `center`, scaled to the standard deviation of a normal
// distribution.
double scatter(std::span<const double> values, double center);

}  // namespace dettax
