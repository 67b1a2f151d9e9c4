#pragma once

#include <cstddef>
#include <span>

namespace dettax {

// Steady: the median of the last `window` values lies within 2 % of that of the `window` before, or
// some of the last are no better than some of those before (their ranges overlap; on a machine that
// only scatters they do, with a probability of 5/6 for a window of two, and a trend keeps them
// apart). Needs 2 * window values.
bool is_steady(std::span<const double> values, size_t window);

// For a finished series (a log): how many of its first values are warm-up. A first value is, while
// it lies further from the median of all later ones than 2 % or five times their scatter.
size_t warmup_length(std::span<const double> values);

}  // namespace dettax
