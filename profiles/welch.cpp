#include "profiles/welch.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "harness/base/quantiles.h"

namespace dettax {
namespace {

struct Moments {
  double mean = 0, variance_of_mean = 0, freedom = 0;
};

Moments moments_of(std::span<const double> values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) m.mean += value / n;
  double squares = 0;
  for (const double value : values) squares += (value - m.mean) * (value - m.mean);
  m.freedom = n - 1;
  m.variance_of_mean = squares / (n - 1) / n;
  return m;
}

}  // namespace

std::optional<Estimate> difference_of_means(std::span<const double> a, std::span<const double> b,
                                            double confidence) {
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  const Moments ma = moments_of(a), mb = moments_of(b);
  const double difference = mb.mean - ma.mean, variance = ma.variance_of_mean + mb.variance_of_mean;
  double half_width = 0;
  if (variance > 0) {
    const double freedom = variance * variance /
                           (ma.variance_of_mean * ma.variance_of_mean / ma.freedom +
                            mb.variance_of_mean * mb.variance_of_mean / mb.freedom);
    half_width =
        student_t_quantile(0.5 + confidence / 2, std::max(1.0, freedom)) * std::sqrt(variance);
  }
  return Estimate{difference, difference - half_width, difference + half_width,
                  static_cast<int64_t>(std::min(a.size(), b.size()))};
}

}  // namespace dettax
