#include "results/analysis/acceptance/peers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/base/error.h"
#include "harness/base/quantiles.h"
#include "harness/base/robust.h"

namespace dettax {
namespace {

constexpr size_t kFewestPeers = 4;
constexpr double kEfficiency = 0.6;        // of Qn in small samples, against the standard deviation
constexpr double kMedianVariance = 1.571;  // pi / 2, times n / variance
constexpr double kQnNormal = 2.2219;       // makes Qn a standard deviation for normal values

// Croux and Rousseeuw (1992): makes Qn unbiased for n values.
double small_sample_factor(size_t n) {
  constexpr std::array kFactors = {0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872};
  if (n < kFactors.size() + 2) return kFactors.at(n - 2);
  const auto count = static_cast<double>(n);
  return count / (count + (n % 2 == 1 ? 1.4 : 3.8));
}

size_t pairs_within(std::span<const double> sorted, double distance) {
  size_t pairs = 0, first = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    while (sorted[i] - sorted[first] > distance) ++first;
    pairs += i - first;
  }
  return pairs;
}

// The rank-th smallest distance of two values, by halving, so that thousands of values need no list of all pairs.
double pair_distance(std::span<const double> sorted, size_t rank) {
  if (pairs_within(sorted, 0) >= rank) return 0;
  double low = 0, high = sorted.back() - sorted.front();
  while (true) {
    const double middle = low + (high - low) / 2;
    if (!(low < middle && middle < high)) return high;
    (pairs_within(sorted, middle) >= rank ? high : low) = middle;
  }
}

}  // namespace

double robust_scale(std::span<const double> values) {
  const size_t n = values.size();
  if (n < 2) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const size_t half = n / 2 + 1;
  return kQnNormal * small_sample_factor(n) * pair_distance(sorted, half * (half - 1) / 2);
}

PeerComparison compare_with_peers(std::span<const PeerValue> values, double false_alarm) {
  const size_t n = values.size();
  if (n < kFewestPeers) throw Error(ErrorKind::internal, "too few peers to compare");
  std::vector<double> all, errors;
  for (const PeerValue& one : values) {
    if (!std::isfinite(one.value)) throw Error(ErrorKind::internal, "a peer has no value");
    all.push_back(one.value);
    errors.push_back(one.standard_error);
  }
  const auto count = static_cast<double>(n);
  PeerComparison found;
  found.center = median(all);
  found.scale = robust_scale(all);
  const double usual_error = median(errors);
  const double quantile =
      student_t_quantile(1 - false_alarm / (2 * count), kEfficiency * (count - 1)) *
      std::sqrt(1 + kMedianVariance / count);
  found.usual_cut = quantile * found.scale;
  for (const PeerValue& one : values) {
    const double excess = one.standard_error * one.standard_error - usual_error * usual_error;
    found.deviation.push_back(one.value - found.center);
    found.cut.push_back(quantile * std::sqrt(found.scale * found.scale + std::max(0.0, excess)));
  }
  return found;
}

}  // namespace dettax
