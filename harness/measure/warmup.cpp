#include "harness/measure/warmup.h"

#include <algorithm>
#include <cmath>

#include "harness/base/robust.h"

namespace dettax {
namespace {

// A change that is small for a training step, whatever the scatter: tighter would make noise-free
// series warm up for ever.
constexpr double kSmallRatio = 0.02;

double median_of(std::span<const double> values) { return median({values.begin(), values.end()}); }

}  // namespace

bool is_steady(std::span<const double> values, size_t window) {
  if (window == 0 || values.size() < 2 * window) return false;
  const std::span<const double> before = values.last(2 * window).first(window);
  const std::span<const double> after = values.last(window);
  const double steady = median_of(before);
  if (std::abs(median_of(after) - steady) <= kSmallRatio * steady) return true;
  const auto [least_before, most_before] = std::ranges::minmax(before);
  const auto [least_after, most_after] = std::ranges::minmax(after);
  return least_before <= most_after && least_after <= most_before;
}

size_t warmup_length(std::span<const double> values) {
  for (size_t first = 0; first + 2 <= values.size(); ++first) {
    const std::span<const double> later = values.subspan(first + 1);
    const double steady = median_of(later);
    const double allowed = std::max(kSmallRatio * std::abs(steady), 5 * scatter(later, steady));
    if (std::abs(values[first] - steady) <= allowed) return first;
  }
  return values.empty() ? 0 : values.size() - 1;
}

}  // namespace dettax
