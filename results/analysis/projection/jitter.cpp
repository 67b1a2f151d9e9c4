#include "results/analysis/projection/jitter.h"

#include <algorithm>
#include <cmath>

namespace dettax {
namespace {

constexpr uint32_t kTaskStream = 1, kHostStream = 2;

RandomKey key_of(const StepJitter& jitter, uint32_t stream) {
  return {jitter.seed, RandomPurpose::analysis, stream};
}

// Whether one of the hosts behind a stage is slow in this step.
bool slow_stage(const StepJitter& jitter, int64_t ranks, uint64_t step, size_t stage) {
  if (jitter.slow_host_share <= 0) return false;
  const double hosts =
      std::ceil(static_cast<double>(ranks) / static_cast<double>(jitter.host_ranks));
  const double any = 1 - std::pow(1 - jitter.slow_host_share, hosts);
  return uniform(random_words(key_of(jitter, kHostStream), step, stage)[0]) < any;
}

}  // namespace

double expected_maximum(double n) {
  if (n <= 1) return 0;
  // Exact for 2, the asymptotic form for many, blended where that is off.
  if (n <= 2) return 0.5641895835477563;
  const double a = std::sqrt(2 * std::log(n));
  const double value = a - (std::log(std::log(n)) + std::log(4 * 3.141592653589793)) / (2 * a) +
                       0.5772156649015329 / a;
  return std::max(0.5641895835477563, value);
}

double draw_maximum(const RandomKey& key, uint64_t high, uint64_t low, double n) {
  constexpr double kFew = 64;
  if (n <= kFew) {
    double largest = -1e300;
    for (uint64_t i = 0; i < static_cast<uint64_t>(std::max(1.0, n)); i += 2) {
      const auto words = random_words(key, high, low * 64 + i);
      largest = std::max(largest, normal(words[0], words[1]));
      if (static_cast<double>(i + 1) < n) largest = std::max(largest, normal(words[2], words[3]));
    }
    return largest;
  }
  const double a = std::sqrt(2 * std::log(n));
  const double location = a - (std::log(std::log(n)) + std::log(4 * 3.141592653589793)) / (2 * a);
  const double u = uniform(random_words(key, high, low)[0]);
  return location - std::log(-std::log(u)) / a;
}

std::vector<double> task_factors(const Schedule& schedule, const StepJitter& jitter,
                                 int64_t ranks_together, uint64_t step) {
  std::vector<double> factors(static_cast<size_t>(schedule.tasks()));
  const RandomKey key = key_of(jitter, kTaskStream);
  const double shift = expected_maximum(static_cast<double>(ranks_together));
  // The largest of n varies less than one; half the spread is near enough for 2 to 1000.
  const double spread = ranks_together > 1 ? 0.5 : 1.0;
  size_t at = 0;
  for (size_t stage = 0; stage < schedule.order.size(); ++stage) {
    const double slow =
        slow_stage(jitter, ranks_together, step, stage) ? jitter.slow_host_ratio : 1.0;
    const size_t end = at + schedule.order[stage].size();
    while (at < end) {
      // One call of the generator serves two tasks.
      const auto words = random_words(key, step, at / 2);
      for (size_t half = 0; half < 2 && at < end; ++half, ++at) {
        const double z = at % 2 == 0 ? normal(words[0], words[1]) : normal(words[2], words[3]);
        factors[at] = slow * std::max(0.5, 1 + jitter.pass_cv * (shift + spread * z));
      }
    }
  }
  return factors;
}

}  // namespace dettax
