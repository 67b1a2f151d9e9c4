#pragma once

#include <cstddef>

namespace dettax {

// Value that a t-distributed variable stays under with this probability.
double student_t_quantile(double probability, double degrees_of_freedom);

// r such that the r-th smallest and the r-th largest of n values hold the median with at least
// `confidence`; 0 if no r does (n is too small).
size_t median_interval_rank(size_t n, double confidence);

}  // namespace dettax
