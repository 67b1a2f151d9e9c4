#pragma once

#include <span>
#include <vector>

namespace dettax {

double mean(std::span<const double> values);  // NaN if empty
double median(std::vector<double> values);    // NaN if empty
// The lower one of an even number, so that of two values the greater is beyond it. NaN if empty.
double lower_median(std::vector<double> values);
// Median absolute deviation from `center`, scaled to the standard deviation of a normal
// distribution.
double scatter(std::span<const double> values, double center);

}  // namespace dettax
