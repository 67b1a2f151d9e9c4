#pragma once

#include <optional>
#include <span>

#include "results/record.h"

namespace dettax {

// Difference of two means, b - a, with Welch's t interval. Nothing with fewer than two values on a side.
std::optional<Estimate> difference_of_means(std::span<const double> a, std::span<const double> b,
                                            double confidence);

}  // namespace dettax
