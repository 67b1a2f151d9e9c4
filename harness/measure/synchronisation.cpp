#include "harness/measure/synchronisation.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dettax {
namespace {

// Clocks of host and device do not agree to the last microsecond.
constexpr double kLeeway = 1.02;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

Synchronisation synchronisation(const Block& block) {
  Synchronisation found;
  const size_t ranks =
      std::min(block.step_time_seconds.size(), block.device_step_time_seconds.size());
  for (size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<double>& host = block.step_time_seconds[rank];
    const std::vector<double>& device = block.device_step_time_seconds[rank];
    for (size_t step = 0; step < std::min(host.size(), device.size()); ++step) {
      ++found.steps;
      found.unsynchronised += device[step] > kLeeway * host[step] ? 1 : 0;
    }
  }
  return found;
}

double mean_step_seconds(const Block& block) {
  double slowest = std::numeric_limits<double>::quiet_NaN();
  for (size_t rank = 0; rank < block.step_time_seconds.size(); ++rank) {
    const std::vector<double>& host = block.step_time_seconds[rank];
    if (host.empty()) continue;
    double whole = sum(host);
    // The host may have left before the device had finished the last step.
    if (rank < block.device_step_time_seconds.size())
      whole = std::max(whole, sum(block.device_step_time_seconds[rank]));
    const double mean = whole / static_cast<double>(host.size());
    if (!(mean <= slowest)) slowest = mean;
  }
  return slowest;
}

}  // namespace dettax
