#pragma once

#include <cstddef>
#include <span>

namespace dettax {

// Steady: the median of the last `window` values lies no further from the median of the `window`
// before than 2 % or three times their scatter (scaled median absolute deviation), whichever is
// more. Needs 2 * window values.
bool is_steady(std::span<const double> values, size_t window);

// For a finished series (a log): how many of its first values are warm-up. A first value is, while
// it lies further from the median of all later ones than 2 % or five times their scatter.
size_t warmup_length(std::span<const double> values);

}  // namespace dettax
